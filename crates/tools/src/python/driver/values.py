"""Encoding and decoding of values.

The parts of the driver run in one namespace, in the order in which the worker sends them.
"""

import json
import re
from _json import encode_basestring_ascii as quote

# Deeper than any value that the worker accepts, and far below the recursion limit.
MAX_VALUE_DEPTH = 200
# Numbers with nineteen digits may exceed 64 bits. Shorter ones never do.
LONG_NUMBER = re.compile("[0-9]{19}")

_decode = json.JSONDecoder().decode


def _whole(text):
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 64 else float(text)


# The worker writes large floats without an exponent, so integers beyond 64 bits are floats.
_decode_long = json.JSONDecoder(parse_int=_whole).decode


def decode(text):
    return _decode(text) if LONG_NUMBER.search(text) is None else _decode_long(text)


def as_plain(value):
    """Returns the replacement of a value that JSON does not support."""
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    if hasattr(type(value), "__index__"):
        # Integers of numeric libraries.
        try:
            return type(value).__index__(value)
        except TypeError:
            pass
    return str(value)


_fast = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=as_plain).encode


def clean(value, depth=0):
    """Returns the value with text in place of everything that JSON cannot hold."""
    if depth > MAX_VALUE_DEPTH:
        raise ValueError("the result is nested too deeply or contains itself")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else int.__repr__(value)
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, dict):
        return {clean_key(key): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item, depth + 1) for item in value]
    return clean(as_plain(value), depth + 1)


def clean_key(key):
    if isinstance(key, str):
        return clean(key)
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(as_plain(key)).replace("\0", "\ufffd")


def encode(value):
    try:
        text = _fast(value)
        plain = "\\u0000" not in text and LONG_NUMBER.search(text) is None
    except (ValueError, TypeError, RecursionError):
        plain = False
    if not plain:
        text = _fast(clean(value))
    return text.encode("utf-8", "replace")
