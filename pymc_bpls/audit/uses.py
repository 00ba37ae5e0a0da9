"""What each audited criterion is good for, for this model and these data, those of one kind in one sentence.

A loss or an error counts only as far as the reference's own Monte Carlo error does not explain it (`Truth.beyond_error`): the
largest of many errors is large by noise alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.text.numbers import percent

#: Shares of the range of log PPP over the pool up to which a loss and an error count as small.
_SMALL_LOSS, _SMALL_ERROR = 0.01, 0.1


def say_uses(agreement: xr.Dataset, range_: float) -> str:
    """A sentence for each kind of use that a criterion of `agreement` is of, where log PPP has the range `range_`."""
    names = ("regret", "regret_proven", "max_centred_share", "max_centred_proven")
    columns = {name: agreement[name].to_numpy().astype(float) if name in agreement else np.nan for name in names}
    shares = pd.DataFrame(columns, index=pd.Index(agreement["criterion"].to_numpy(), dtype=object))
    shares[["regret", "regret_proven", "max_centred_proven"]] /= range_
    kinds = [_kind(*each) for each in shares[list(names)].to_numpy().tolist()]
    return " ".join(say(shares[[kind is say for kind in kinds]]) for say in _KINDS if say in kinds)


def _kind(regret: float, regret_proven: float, error: float, error_proven: float) -> Callable[[pd.DataFrame], str]:
    """By shares of the range."""
    if regret_proven > 0 and regret > _SMALL_LOSS:
        return _say_bad_choices
    if np.isnan(error):
        return _say_order_only
    if error <= _SMALL_ERROR:
        return _say_usable
    return _say_bad_values if error_proven > _SMALL_ERROR else _say_unknown_values


def _say_usable(of_kind: pd.DataFrame) -> str:
    who, _, its, choices = _words(of_kind.index)
    return (
        f"{who} can be used here: {its} {choices}, and {its} values, centred, are within "
        f"{_largest(of_kind, 'max_centred_share')}."
    )


def _say_bad_values(of_kind: pd.DataFrame) -> str:
    who, s, its, _ = _words(of_kind.index)
    return f"{who} choose{s} well here, but {its} values, centred, are off by up to {_largest(of_kind, 'max_centred_share')}."


def _say_unknown_values(of_kind: pd.DataFrame) -> str:
    who, s, its, _ = _words(of_kind.index)
    return (
        f"{who} choose{s} well here. How good {its} values are cannot be told: they differ from the reference by up to "
        f"{_largest(of_kind, 'max_centred_share')}, and its own error may be the reason. Take more draws."
    )


def _say_order_only(of_kind: pd.DataFrame) -> str:
    who, s, its, choices = _words(of_kind.index)
    return f"{who} choose{s} well here: {its} {choices}. Only the order of {its} scores was compared."


def _say_bad_choices(of_kind: pd.DataFrame) -> str:
    who, _, its, _ = _words(of_kind.index)
    if len(of_kind) == 1:
        return f"{who} chooses badly here: its choice loses {_largest(of_kind, 'regret')}."
    smallest, worst = percent(of_kind["regret"].min()), of_kind["regret"].idxmax()
    return f"{who} choose badly here: {its} choices lose {smallest} to {_largest(of_kind, 'regret')}, that of {worst} most."


def _largest(of_kind: pd.DataFrame, name: str) -> str:
    """The largest share of the range, with what it is a share of."""
    return f"{percent(of_kind[name].max())} of the range of log PPP over the pool"


def _words(labels: pd.Index) -> tuple[str, str, str, str]:
    """Criteria as a subject, with the ending of its verb, its pronoun, and what its choice is."""
    if len(labels) == 1:
        return str(labels[0]), "s", "its", "choice is the exact best or loses next to nothing"
    who = f"{', '.join(labels[:-1])} and {labels[-1]}"
    return who, "", "their", "choices are the exact best or lose next to nothing"


_KINDS = (_say_usable, _say_bad_values, _say_unknown_values, _say_order_only, _say_bad_choices)
