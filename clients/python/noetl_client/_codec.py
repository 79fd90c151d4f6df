"""Conversion between JSON values and dataclasses. Unknown fields of a response are ignored."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any


def encode(value: Any) -> Any:
    """Converts a value to JSON types. Optional fields that are ``None`` are omitted."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        encoded = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            is_required = field.default is dataclasses.MISSING
            if item is not None or is_required:
                encoded[wire_name(field)] = encode(item)
        return encoded
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(target_type: Any, value: Any) -> Any:
    """Converts a JSON value to a type."""
    if value is None or target_type is Any:
        return value
    if dataclasses.is_dataclass(target_type) and isinstance(target_type, type):
        return _decode_dataclass(target_type, value)
    origin = typing.get_origin(target_type)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(target_type) if option is not type(None)]
        return decode(options[0], value) if len(options) == 1 else value
    if origin is list:
        (item_type,) = typing.get_args(target_type)
        return [decode(item_type, item) for item in value]
    if origin is dict:
        _, item_type = typing.get_args(target_type)
        return {key: decode(item_type, item) for key, item in value.items()}
    return value


def wire_name(field: dataclasses.Field[Any]) -> str:
    """Returns the JSON name of a field."""
    name: str = field.metadata.get("name", field.name)
    return name


def _decode_dataclass(target_type: type, value: Any) -> Any:
    arguments = {}
    for field in _dataclass_fields(target_type):
        if field.wire_name in value:
            arguments[field.name] = decode(field.type, value[field.wire_name])
    return target_type(**arguments)


class _FieldInfo(typing.NamedTuple):
    name: str
    wire_name: str
    type: Any


@functools.cache
def _dataclass_fields(target_type: type) -> list[_FieldInfo]:
    hints = typing.get_type_hints(target_type)
    fields = dataclasses.fields(target_type)
    return [_FieldInfo(field.name, wire_name(field), hints[field.name]) for field in fields]
