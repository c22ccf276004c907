"""Typed values out of plain ones: every key and type of a configuration is checked against the dataclasses."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rllc.mistake import Mistake, unknown


def known_key(kind: Any, path: str) -> None:
    """Check the dotted key of an override against the dataclass `kind`.

    Raises:
        Mistake: there is no such key; the legal ones at that place are listed.
    """
    where = kind
    walked = ""
    for step in path.split("."):
        walked = f"{walked}.{step}".lstrip(".")
        if get_origin(where) is dict:
            where = get_args(where)[1]
        elif kinds := _dataclasses(where):
            hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
            if step not in hints:
                raise Mistake(f"{walked}: there is no such key; legal: {', '.join(hints)}.")
            where = hints[step]
        else:
            return


def build(kind: Any, value: Any, key: str) -> Any:
    """A value of the annotated type `kind`.

    Raises:
        Mistake: a key is unknown or missing, or a value of the wrong type; `key` names the place.
    """
    origin, args = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value, key)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        if value == "" and str in args:
            raise Mistake(f"{key}: '' is empty; null stands for nothing.")
        return build(_member(args, value, key), value, key)
    if origin is Literal:
        if value not in args:
            raise unknown(key, value, args)
        return value
    if origin is list:
        if not isinstance(value, list | tuple):
            raise Mistake(f"{key}: {value!r} is not a list, as {key}=[…].")
        return [build(args[0], item, key) for item in value]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise Mistake(f"{key}: {value!r} is not a group of named values.")
        return {str(name): build(args[1], item, f"{key}.{name}") for name, item in value.items()}
    return _build_scalar(kind, value, key)


def _dataclasses(kind: Any) -> list[Any]:
    """The dataclasses that a type allows."""
    found = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return [each for each in found if dataclasses.is_dataclass(each)]


def _member(args: tuple[Any, ...], value: Any, key: str) -> Any:
    """The member of a union that a value is meant for: of several dataclasses the one whose `kind` it names."""
    members = [each for each in args if each is not type(None)]
    if len(members) == 1:
        return members[0]
    named = {name: each for each in members for name in get_args(get_type_hints(each)["kind"])}
    kind = value.get("kind") if isinstance(value, Mapping) else value
    if not isinstance(kind, str) or kind not in named:
        raise unknown(f"{key}.kind", kind, named)
    return named[kind]


def _build_dataclass(kind: Any, value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        legal = ", ".join(get_type_hints(kind))
        raise Mistake(f"{key or 'the configuration'}: {value!r} is not a group of named values; its keys: {legal}.")
    hints = get_type_hints(kind)
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in hints:
            raise Mistake(f"{prefix}{name}: there is no such key; legal: {', '.join(hints)}.")
    given = (dataclasses.MISSING, dataclasses.MISSING)
    defaulted = {field.name for field in dataclasses.fields(kind) if (field.default, field.default_factory) != given}
    if missing := [name for name in hints if name not in value and name not in defaulted]:
        raise Mistake(f"{prefix}{missing[0]}: no value is given.")
    return kind(**{name: build(hints[name], item, f"{prefix}{name}") for name, item in value.items()})


def _build_scalar(kind: type, value: Any, key: str) -> Any:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    raise Mistake(f"{key}: {value!r} is not {names[kind]}.")
