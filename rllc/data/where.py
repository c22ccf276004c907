"""The filter of a files dataset: one field of a record equal to one value."""

import json
import re
from dataclasses import dataclass
from typing import Any

from rllc.mistake import Mistake

_SYNTAX = re.compile(r"""\s*([^\s="']+)\s*==\s*("[^"]*"|'[^']*'|-?\d+(?:\.\d+)?)\s*""")


@dataclass(frozen=True)
class Where:
    """Keeps a record if the field equals the value, or is a list that contains it; dots lead into nested fields."""

    field: str
    value: str | int | float

    def values(self, record: dict[str, Any]) -> list[Any]:
        """List what the record holds under the field: nothing, one value, or the items of a list."""
        found: Any = record
        for name in [self.field] if self.field in record else self.field.split("."):
            if not isinstance(found, dict) or name not in found:
                return []
            found = found[name]
        return found if isinstance(found, list) else [found]


def parse(text: str) -> Where:
    """Read a condition such as `meta.pile_set_name == "Github"`; raise Mistake for any other form."""
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise Mistake(f'where: {text!r} is not of the form field == "value" or field == number.')
    field, value = match.groups()
    return Where(field, value[1:-1] if value[0] in "\"'" else json.loads(value))
