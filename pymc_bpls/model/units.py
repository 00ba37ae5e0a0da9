"""Units in which unconstrained parameters are counted, so that what is tried of them is near 1 whatever units predictors have.

The coefficient of a predictor in nanometres is some 10⁹ times that in metres. Steps of searches, differences, jitter and tests
of a function's form would overshoot the one and see nothing of the other. Each parameter is counted in a power of 1024 of its
own, as lengths are in kilometres and millimetres, by how far it has to move to change log-likelihoods or the log prior. Most
models keep the numbers that PyMC has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

_STEP, _MOST = 1024.0, 6  # units from 1024⁻⁶ to 1024⁶
_FAR = 32.0  # in units, the root of a step: a parameter that changes something at a distance of 1 may be off by this factor
_CHANGE = 0.5  # what a normal log-density falls by within one sd
_SHARE = 0.75  # of the rows that a parameter changes at all, that which may be nearer or far away
_ALONE = 256  # entries of a variable that are looked at one by one, at some milliseconds each: more have one unit

#: Log densities (R,) at θ (q,).
LogDensities = Callable[[np.ndarray], np.ndarray]


def find_units(start: np.ndarray, sizes: Sequence[int], log_lik: LogDensities | None, log_prior: LogDensities) -> np.ndarray:
    """What one of each entry of θ is in PyMC's numbers (q,).

    Parameters
    ----------
    start : ndarray, shape (q,)
        Where the model starts.
    sizes : sequence of int
        Of the variables that θ consists of, in their order.
    log_lik : callable or None
        From θ to the log-likelihoods of some rows, where rows have any of their own.
    log_prior : callable
        From θ to the log prior (1,).

    Examples
    --------
    The coefficient of a predictor of size 10⁻⁸ whose prior is as wide as that asks for:

    >>> import numpy as np
    >>> from pymc_bpls.model.units import find_units
    >>> x = np.array([1e-8, -2e-8, 3e-8])
    >>> find_units(np.zeros(1), [1], lambda b: -np.log1p(np.exp(x * b)), lambda b: -0.5 * (1e-8 * b) ** 2) == 1024.0**3
    array([ True])
    """
    units = np.ones(len(start))
    with np.errstate(all="ignore"):
        rows, prior = None if log_lik is None else log_lik(start), log_prior(start)

        def changes(move: np.ndarray, distance: float) -> bool:
            ahead, behind = start + distance * move, start - distance * move
            fallen = _fallen(log_prior(ahead), prior, log_prior(behind)) / np.abs(move).sum()
            if fallen >= _CHANGE or log_lik is None:
                return bool(fallen >= _CHANGE)
            moved = np.abs(log_lik(ahead) - rows)
            moved = moved[np.isfinite(moved) & (moved > 0)]
            return bool(moved.size and np.quantile(moved, _SHARE) >= _CHANGE)

        for entries in _together(sizes) if np.isfinite(prior).all() else ():
            units[entries] = _unit(partial(changes, _move(entries, len(start))))
    return units


def _fallen(ahead: np.ndarray, here: np.ndarray, behind: np.ndarray) -> float:
    """By how much more than rounding a log density changes on average in two opposite directions."""
    change = np.abs(0.5 * (ahead + behind) - here)
    rounding = np.finfo(float).eps * (np.abs(ahead) + np.abs(behind))
    return float(np.where(np.isfinite(change), np.maximum(change - rounding, 0.0), change).sum())


def _together(sizes: Sequence[int]) -> Iterator[np.ndarray]:
    """Entries that have one unit: each by itself, or all of a large variable."""
    for entries in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]):
        yield from (entries[:, None] if len(entries) <= _ALONE else [entries])


def _move(entries: np.ndarray, q: int) -> np.ndarray:
    """Up or down by 1 in each of the entries."""
    move = np.zeros(q)
    move[entries] = np.random.default_rng(0).choice([1.0, -1.0], len(entries))
    return move


def _unit(changes: Callable[[float], bool]) -> float:
    """The power of 1024 around whose 32-fold something begins to change; 1 where nothing ever does."""
    power = 0
    if changes(_FAR):
        while power > -_MOST and changes(_FAR * _STEP ** (power - 1)):
            power -= 1
        return _STEP**power
    return next((_STEP**power for power in range(1, _MOST + 1) if changes(_FAR * _STEP**power)), 1.0)
