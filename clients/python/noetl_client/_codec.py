"""Values of the wire and dataclasses. What an answer has and a type has not is passed over."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any


def encode(value: Any) -> Any:
    """A value as JSON has it; what is absent is left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            is_needed = field.default is dataclasses.MISSING
            if item is not None or is_needed:
                out[wire_name(field)] = encode(item)
        return out
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(kind: Any, value: Any) -> Any:
    """A value of the wire as a type has it."""
    if value is None or kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, value)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return decode(options[0], value) if len(options) == 1 else value
    if origin is list:
        (item,) = typing.get_args(kind)
        return [decode(item, each) for each in value]
    if origin is dict:
        _, item = typing.get_args(kind)
        return {key: decode(item, each) for key, each in value.items()}
    return value


def wire_name(field: dataclasses.Field[Any]) -> str:
    """What the wire calls a field."""
    name: str = field.metadata.get("name", field.name)
    return name


def _object(kind: type, value: Any) -> Any:
    known = {}
    for name, wire, hint in _fields(kind):
        if wire in value:
            known[name] = decode(hint, value[wire])
    return kind(**known)


@functools.cache
def _fields(kind: type) -> list[tuple[str, str, Any]]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    return [(field.name, wire_name(field), hints[field.name]) for field in fields]
