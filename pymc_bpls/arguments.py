"""What arguments admit: a small vocabulary of predicates, and the table of the methods' arguments with what refuses them."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from pymc_bpls.errors import CriterionError

Predicate = Callable[[Any], bool]


def count(least: int) -> Predicate:
    """Whole numbers from `least` on."""
    return lambda value: isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def number(holds: Callable[[float], bool] = lambda value: True) -> Predicate:
    """Finite numbers for which something holds."""

    def admits(value: Any) -> bool:
        plain = isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)
        return plain and bool(np.isfinite(float(value))) and holds(float(value))

    return admits


def optional(admits: Predicate) -> Predicate:
    """None, or what `admits`."""
    return lambda value: value is None or admits(value)


def flag(value: Any) -> bool:
    """True or False."""
    return isinstance(value, bool | np.bool_)


def seeds(value: Any) -> bool:
    """What NumPy makes a generator of."""
    try:
        np.random.default_rng(value)
    except (TypeError, ValueError):
        return False
    return True


#: What each argument admits, and what is said of a `value` that it does not.
ARGUMENTS: dict[str, tuple[Predicate, str]] = {
    "top": (count(1), "top={value!r} is no number of candidates. Give 1 or more."),
    "every": (count(1), "every={value!r} is no number of rounds. Give 1 or more."),
    "rounds": (optional(count(0)), "rounds={value!r} is no number of rounds. Give 0 or more, or None for all."),
    "replicates": (count(1), "replicates={value!r} is no number of runs. Give 1 or more."),
    "splits": (count(1), "splits={value!r} is no number of splits. Give 1 or more, or a list of splits."),
    "test_share": (number(lambda value: 0 < value < 1), "test_share={value!r} is no share. Give a number between 0 and 1."),
    "folds": (count(2), "folds={value!r} is no number of folds. Give 2 or more."),
    "repeats": (count(1), "repeats={value!r} is no number of repetitions. Give 1 or more."),
    "alpha": (number(lambda value: 0 < value < 1), "alpha={value!r} is no probability. Give a number between 0 and 1."),
    "batch_size": (count(1), "batch_size={value!r} is no number of rows to add. Give 1 or more."),
    "pseudo_weight": (
        number(lambda value: value > 0),
        "pseudo_weight={value!r} is not a positive number. Use 1 for a full row.",
    ),
    "candidate": (
        lambda value: isinstance(value, str) and value in ("conditional", "joint"),
        'candidate={value!r} is unknown. Use "conditional", p(y | x, θ), or "joint", p(x, y | θ).',
    ),
    "weight": (
        number(lambda value: 0 < value <= 1),
        "weight={value!r} is no weight of the pool. Use 1, which is Bayes, or a number between 0 and 1 that hedges.",
    ),
    "chunk_bytes": (optional(count(1)), "chunk_bytes={value!r} is no amount of memory. Give a number of bytes."),
    "draws": (count(1), "draws={value!r} is no number of draws. Give 1 or more."),
    "tune": (count(0), "tune={value!r} is no number of draws. Give 0 or more."),
    "chains": (count(1), "chains={value!r} is no number of chains. Give 1 or more."),
    "per_class": (flag, "per_class={value!r} is neither True nor False. Give one of them."),
    "absolute": (flag, "absolute={value!r} is neither True nor False. Give one of them."),
    "by": (
        lambda value: isinstance(value, str) and value in ("leave-one-out", "split"),
        'by={value!r} is unknown. Use "leave-one-out", with all labels, or "split", which is exact and takes half of them.',
    ),
    "executor": (
        lambda value: value is None or callable(getattr(value, "submit", None)),
        "executor={value!r} runs nothing. Give what has submit, as a ThreadPoolExecutor or a Dask client, or None.",
    ),
    "other_modes": (flag, "other_modes={value!r} is neither True nor False. Give one of them."),
    "random_seed": (
        seeds,
        "random_seed={value!r} seeds no random numbers. Give a whole number, 0 or more, a numpy Generator, or None.",
    ),
}


def require(value: Any, admits: Predicate, refusal: str) -> None:
    """Refuse a `value` that is not admitted, in the words of `refusal`.

    Raises
    ------
    CriterionError

    Examples
    --------
    >>> from pymc_bpls.arguments import count, require
    >>> require(-1, count(0), "MaxRounds({value!r}) is no number of rounds. Give 0 or more.")
    Traceback (most recent call last):
    pymc_bpls.errors.CriterionError: MaxRounds(-1) is no number of rounds. Give 0 or more.
    """
    if not admits(value):
        raise CriterionError(refusal.format(value=value))


def check(**arguments: Any) -> None:
    """Refuse arguments that their row of `ARGUMENTS` does not admit.

    Examples
    --------
    >>> from pymc_bpls.arguments import check
    >>> check(rounds=None, batch_size=0)
    Traceback (most recent call last):
    pymc_bpls.errors.CriterionError: batch_size=0 is no number of rows to add. Give 1 or more.
    """
    for name, value in arguments.items():
        require(value, *ARGUMENTS[name])
