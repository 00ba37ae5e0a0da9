"""What each audited criterion is good for, for this model and these data, those of one kind in one sentence.

A loss or an error counts only as far as the reference's own Monte Carlo error does not explain it (`Truth.beyond_error`): the
largest of many errors is large by noise alone. It is held against `Truth.scale`, the range of log PPP over the pool unless a
few candidates stretch that, and what is below `NEGLIGIBLE` nats is small in any pool.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np
import pandas as pd
import scipy.stats
import xarray as xr

from pymc_bpls.text.numbers import percent

#: Shares of the scale up to which a loss and an error count as small.
SMALL_LOSS, SMALL_ERROR = 0.01, 0.1
#: Nats up to which a loss, an error or a whole pool's range matters to nobody: PPP changes by a thousandth of itself.
NEGLIGIBLE = 0.001
#: The largest probability that a random ranking agrees with the exact one as well as one that is said to choose well.
BY_CHANCE = 0.05
_RANGE = "of the range of log PPP over the pool"


def loses_much(regret: float, regret_proven: float, scale: float) -> bool:
    """Whether a choice that loses `regret` nats, `regret_proven` of them beyond the reference's error, is a bad one.

    Examples
    --------
    >>> from pymc_bpls.audit.uses import loses_much
    >>> loses_much(0.3, 0.2, scale=4.0), loses_much(0.0008, 0.0007, scale=0.004)
    (True, False)
    """
    return regret_proven > 0 and regret > max(SMALL_LOSS * scale, NEGLIGIBLE)


def chance(n: int) -> float:
    """Kendall's τ that a random ranking of n candidates exceeds with probability `BY_CHANCE`, by the normal approximation.

    Its variance is 2 (2n + 5) / (9n (n − 1)).

    Examples
    --------
    >>> from pymc_bpls.audit.uses import chance
    >>> round(chance(40), 3)
    0.181
    """
    if n < 2:
        return 1.0
    return float(scipy.stats.norm.isf(BY_CHANCE) * np.sqrt(2 * (2 * n + 5) / (9 * n * (n - 1))))


def say_range(range_: float) -> str:
    """How far exact log PPP is spread over the pool."""
    return f"Exact log PPP spans {_nats(range_)} over the pool"


def say_spread(range_: float, scale: float) -> str:
    """That, and against what losses and errors are held."""
    if scale == range_:
        return f"{say_range(range_)}."
    return f"{say_range(range_)}, most of it by a few candidates: losses and errors are held against {_nats(scale)} instead."


def of_scale(range_: float, scale: float) -> str:
    """What shares are shares of."""
    return _RANGE if scale == range_ else f"of {_nats(scale)}"


def _nats(size: float) -> str:
    return f"{size:.0f} nats" if size >= 100 else f"{size:.2g} nats"


def say_uses(agreement: xr.Dataset, scale: float, of_what: str = _RANGE) -> str:
    """A sentence for each kind of use that a criterion of `agreement` is of, by shares of `scale`."""
    kinds, shares = kinds_of_use(agreement, scale)
    return " ".join(say(shares[[kind is say for kind in kinds]], of_what) for say in _KINDS if say in kinds)


Say = Callable[[pd.DataFrame, str], str]


def kinds_of_use(agreement: xr.Dataset, scale: float) -> tuple[list[Say], pd.DataFrame]:
    """What says of each criterion of `agreement` what it is good for, and what there is to say."""
    names = ("regret", "regret_proven", "max_centred", "max_centred_proven", "tau_low", "n_compared")
    columns = {name: agreement[name].to_numpy().astype(float) if name in agreement else np.nan for name in names}
    found = pd.DataFrame(columns, index=pd.Index(agreement["criterion"].to_numpy(), dtype=object))
    kinds = [_kind(row, scale) for row in found.to_dict("records")]
    found[list(names[:4])] /= scale
    return kinds, found


def _kind(found: Mapping[Hashable, float], scale: float) -> Say:
    """By losses and errors in nats."""
    small = max(SMALL_ERROR * scale, NEGLIGIBLE)
    if loses_much(found["regret"], found["regret_proven"], scale):
        return _say_bad_choices
    near = found["max_centred"] <= small  # good values are good evidence also in a pool too small to judge a ranking by
    if not found["tau_low"] > (0.0 if near else chance(int(found["n_compared"]))):
        return _say_luck
    if np.isnan(found["max_centred"]):
        return _say_order_only
    if near:
        return say_usable
    return _say_bad_values if found["max_centred_proven"] > small else _say_unknown_values


def say_usable(of_kind: pd.DataFrame, of_what: str) -> str:
    """Of criteria whose choices and values are good."""
    who, _, its, choices = _words(of_kind.index)
    return (
        f"{who} can be used here: {its} {choices}, and {its} values, centred, are within "
        f"{percent(of_kind['max_centred'].max())} {of_what}."
    )


def _say_bad_values(of_kind: pd.DataFrame, of_what: str) -> str:
    who, s, its, _ = _words(of_kind.index)
    off = percent(of_kind["max_centred"].max())
    return f"{who} choose{s} well here, but {its} values, centred, are off by up to {off} {of_what}."


def _say_unknown_values(of_kind: pd.DataFrame, of_what: str) -> str:
    who, s, its, _ = _words(of_kind.index)
    proven = of_kind["max_centred_proven"].min()
    beyond = f"beyond its own error by {percent(proven)} at least" if proven > 0 else "which its own error may explain"
    return (
        f"{who} choose{s} well here. {its.capitalize()} values, centred, differ from the reference by up to "
        f"{percent(of_kind['max_centred'].max())} {of_what}, {beyond}. "
        f"Whether they are off by more than {percent(SMALL_ERROR)} cannot be told: take more draws."
    )


def _say_order_only(of_kind: pd.DataFrame, of_what: str) -> str:
    who, s, its, choices = _words(of_kind.index)
    return f"{who} choose{s} well here: {its} {choices}. Only the order of {its} scores was compared."


def _say_luck(of_kind: pd.DataFrame, of_what: str) -> str:
    who, *_ = _words(of_kind.index)
    if len(of_kind) == 1:
        return f"The choice of {who} loses little here, maybe by luck: its ranking is not told from a random one."
    return f"The choices of {who} lose little here, maybe by luck: their rankings are not told from random ones."


def _say_bad_choices(of_kind: pd.DataFrame, of_what: str) -> str:
    who, _, its, _ = _words(of_kind.index)
    low, high = percent(of_kind["regret"].min()), percent(of_kind["regret"].max())
    if len(of_kind) == 1:
        return f"{who} chooses badly here: its choice loses {high} {of_what}."
    if low == high:
        return f"{who} choose badly here: their choices lose {high} {of_what}."
    return f"{who} choose badly here: {its} choices lose {low} to {high} {of_what}, that of {of_kind['regret'].idxmax()} most."


def _words(labels: pd.Index) -> tuple[str, str, str, str]:
    """Criteria as a subject, with the ending of its verb, its pronoun, and what its choice is."""
    if len(labels) == 1:
        return str(labels[0]), "s", "its", "choice is the exact best or loses next to nothing"
    who = f"{', '.join(labels[:-1])} and {labels[-1]}"
    return who, "", "their", "choices are the exact best or lose next to nothing"


_KINDS: tuple[Say, ...] = (say_usable, _say_bad_values, _say_unknown_values, _say_order_only, _say_luck, _say_bad_choices)
