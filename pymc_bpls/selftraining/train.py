"""A run of self-training, described by one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

import xarray as xr

from pymc_bpls.rules.label_rules import LabelRule
from pymc_bpls.scoring.criteria import Criterion, FitCriterion
from pymc_bpls.scoring.settings import AUTO
from pymc_bpls.selftraining.pipeline import Pipeline
from pymc_bpls.selftraining.stop_rules import Stop
from pymc_bpls.selftraining.whole_runs import whole_runs


@dataclass(frozen=True, repr=False)
class Train(Pipeline):
    """A run of self-training: what `self_train` makes of its arguments, and a pipeline for `choose`.

    Parameters
    ----------
    criterion : str, Criterion or FitCriterion, default "ppp"
    scorer : BPLS or ModelSet, optional
        Another model on the same rows.
    approximation, expansion, labels, candidate, rounds, batch_size, stop, class_balance, pseudo_weight, replicates, other_modes
        As in `BPLS.self_train`; `rounds=0` is the model without pseudo-labels.

    See Also
    --------
    Marginalize : the pool's labels integrated out.

    Examples
    --------
    >>> import pymc_bpls as bpls
    >>> bpls.Train("probability", rounds=10)
    Train('probability', rounds=10)
    """

    criterion: str | Criterion | FitCriterion = "ppp"
    _: KW_ONLY
    scorer: Any = None
    approximation: str = AUTO
    expansion: str = "map"
    labels: str | LabelRule = "predicted"
    candidate: str = "conditional"
    rounds: int | None = None
    batch_size: int = 1
    stop: Stop | list[Stop] | None = None
    class_balance: Any = None
    pseudo_weight: float | Callable[[float], float] = 1.0
    replicates: int | None = None
    other_modes: bool = True

    def __repr__(self) -> str:
        given = ((each.name, getattr(self, each.name), each.default) for each in fields(self)[1:])
        how = "".join(f", {name}={value!r}" for name, value, default in given if value is not default)
        return f"Train({self.criterion!r}{how})"

    @property
    def name(self) -> str:
        """That of its criterion."""
        return str(getattr(self.criterion, "name", self.criterion))

    def fit(
        self, learner: Any, random_seed: Any, *, test: Any = None, progressbar: bool = True, other_modes: bool = True
    ) -> xr.DataTree:
        """The run, all of it."""
        train = replace(self, other_modes=self.other_modes and other_modes)
        with whole_runs():
            return learner.run(train, test=test, random_seed=random_seed, progressbar=progressbar)

    def how_it_predicts(self, learner: Any) -> str:
        """As the model's predictor does."""
        return (self.scorer or learner).scorer.how_it_predicts
