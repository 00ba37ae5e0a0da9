"""Values of any type as text that says which value it is, and back: what names rows and classes, in a file that holds text.

A value is written as `str` shows it where that can be read as this value and no other, else as `repr` does: 7 is `7`, the text
"7" is `'7'`, a date is `2020-01-31`. NumPy's numbers are written as Python's. A value of an unknown type is written as it shows
itself and comes back as that text.
"""

from __future__ import annotations

import ast
import datetime
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

_MISSING: dict[str, Any] = {"None": None, "<NA>": pd.NA, "NaT": pd.NaT, "nan": float("nan")}
_PLAIN = re.compile(r"[^\W\d][\w \-.:,/+@#%&]*")
_MAKERS: dict[str, Callable[..., Any]] = {
    "datetime.date": datetime.date,
    "datetime.datetime": datetime.datetime,
    "datetime.time": datetime.time,
    "datetime.timedelta": datetime.timedelta,
    "datetime.timezone": datetime.timezone,
    "UUID": uuid.UUID,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "frozenset": frozenset,
    "Timestamp": pd.Timestamp,
    "Timedelta": pd.Timedelta,
    "Period": pd.Period,
    "Interval": pd.Interval,
    "np.datetime64": np.datetime64,
    "np.timedelta64": np.timedelta64,
}
_CONSTANTS: dict[str, Any] = {
    "datetime.timezone.utc": datetime.UTC,
    "nan": float("nan"),
    "inf": float("inf"),
    "NaT": pd.NaT,
}
_NAMED = {"True", "False", *_CONSTANTS}
_SHOWN: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d"), datetime.date.fromisoformat),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*"), pd.Timestamp),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), uuid.UUID),
)


def write(value: Any) -> str:
    """The text of a value, which `read` turns into the same value of the same type where it is of a known type.

    Examples
    --------
    >>> import datetime
    >>> from pymc_bpls.text.literals import write
    >>> [write(value) for value in (7, "7", "north", None, datetime.date(2020, 1, 31), ("a", 1))]
    ['7', "'7'", 'north', 'None', '2020-01-31', "('a', 1)"]
    """
    if isinstance(value, np.bool_ | np.number | np.str_ | np.bytes_) and not isinstance(value, np.timedelta64):
        value = value.item()
    for show in (str, repr):
        text = show(value)
        if can_be_kept(text) and _same(read(text), value):
            return text
    return kept(str(value))


def read(text: str) -> Any:
    """The value that a text stands for; a text that stands for nothing else is itself.

    Examples
    --------
    >>> from pymc_bpls.text.literals import read
    >>> [read(text) for text in ("7", "'7'", "north", "('a', 1)")]
    [7, '7', 'north', ('a', 1)]
    """
    if text in _MISSING:
        return _MISSING[text]
    if _PLAIN.fullmatch(text) and text not in _NAMED:
        return text
    try:
        for pattern, make in _SHOWN:
            if pattern.fullmatch(text):
                return make(text)
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError, ArithmeticError):
        return text


def can_be_kept(text: str) -> bool:
    """Whether a file can hold a text: it has no null character, and is Unicode."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def kept(text: str) -> str:
    """A text as a file can hold it, with escapes for what it cannot."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _same(read_back: Any, value: Any) -> bool:
    if type(read_back) is not type(value):
        return False
    if isinstance(value, tuple):
        return len(read_back) == len(value) and all(map(_same, read_back, value))
    if value is read_back:
        return True
    try:
        return bool(value == read_back) or bool(value != value and read_back != read_back)
    except (TypeError, ValueError):
        return False


def _value(node: ast.expr) -> Any:
    """The value of an expression of literals and of calls that make a value of a known type; another is a ValueError."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple():
            return tuple(map(_value, node.elts))
        case ast.List():
            return list(map(_value, node.elts))
        case ast.Set():
            return set(map(_value, node.elts))
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand)
        case ast.UnaryOp(op=ast.UAdd()):
            return +_value(node.operand)
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=ast.Constant(value=complex() as imaginary)):
            return _value(left) + imaginary if isinstance(node.op, ast.Add) else _value(left) - imaginary
        case ast.Call(func=func):
            named = {each.arg: _value(each.value) for each in node.keywords if each.arg is not None}
            return _MAKERS[ast.unparse(func)](*map(_value, node.args), **named)
        case ast.Name() | ast.Attribute():
            return _CONSTANTS[ast.unparse(node)]
    raise ValueError
