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
        elif dataclasses.is_dataclass(where):
            hints = get_type_hints(where)
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
        return build(next(arg for arg in args if arg is not type(None)), value, key)
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


def _build_dataclass(kind: Any, value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        legal = ", ".join(get_type_hints(kind))
        raise Mistake(f"{key or 'the configuration'}: {value!r} is not a group of named values; its keys: {legal}.")
    hints = get_type_hints(kind)
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in hints:
            raise Mistake(f"{prefix}{name}: there is no such key; legal: {', '.join(hints)}.")
    defaulted = {field.name for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
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
