"""Numbers as people read them."""

from __future__ import annotations

import numpy as np

_MOST_DIGITS = 5


def plus_minus(value: float, error: float) -> str:
    """A number with its error, to the error's first digit, or to three digits where it has none.

    Examples
    --------
    >>> from pymc_bpls.text.numbers import plus_minus
    >>> plus_minus(0.01234, 0.0023), plus_minus(0.01234, 0.0), plus_minus(12.3, 2.0)
    ('0.012 ± 0.002', '0.0123', '12 ± 2')
    """
    if not np.isfinite(error) or error <= 0:
        return f"{value:.3g}" if abs(value) >= 1e-10 else "0"
    digits = max(0, int(-np.floor(np.log10(error))))
    value = round(value, digits) + 0.0  # no minus before a zero
    if digits > _MOST_DIGITS:
        return f"{value:.1e} ± {error:.0e}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def number(value: float) -> str:
    """A number to three decimals, to two digits where it is small, or a dash where it is none.

    Examples
    --------
    >>> from pymc_bpls.text.numbers import number
    >>> number(12.3456), number(0.0123), number(float("nan"))
    ('12.346', '0.012', '–')
    """
    if np.isnan(value):
        return "–"
    return f"{value:.3f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def rounds_done(n: int) -> str:
    """That so many rounds of a run are done."""
    return "1 round is done" if n == 1 else f"{n} rounds are done"


def percent(share: float) -> str:
    """A share in percent, to two digits where it is small."""
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def with_interval(value: float, low: float, high: float) -> str:
    """A correlation with its interval, where the interval has a width."""
    if np.isnan(value):
        return "undefined"
    return f"{value:.3f}" if high - low < 5e-4 else f"{value:.3f} [{low:.3f}, {high:.3f}]"
