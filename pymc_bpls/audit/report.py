"""The audit: scores of the same pairs by several criteria beside the exact log PPP, and what the differences cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.audit.sentences import UNFLAGGED, say_columns, say_left_out
from pymc_bpls.errors import CriterionError
from pymc_bpls.model.data.storing import save
from pymc_bpls.text.attributes import strings
from pymc_bpls.text.numbers import plus_minus, with_interval
from pymc_bpls.text.summary import Summary

#: The numbers of an audit's table, by their names in `/agreement`; each estimate with its error or interval.
_COLUMNS = (
    *("regret", "regret_mcse", "prob_best", "tau", "tau_low", "tau_high"),
    *("tau_unflagged", "tau_unflagged_low", "tau_unflagged_high", "n_compared", "n_unflagged", "top_k", "top_k_mcse"),
    *("max_error", "max_error_mcse", "max_centred", "max_centred_mcse", "pareto_k", "pareto_k_mcse"),
)


@dataclass(frozen=True, repr=False)
class Report(ABC):
    """Findings in a DataTree, with a verdict: what a person reads, and what `to_netcdf` writes."""

    tree: xr.DataTree
    #: The groups that its file has.
    _groups: ClassVar[tuple[str, ...]] = ()

    @property
    def reliable(self) -> bool:
        """Whether the exact reference is to be trusted."""
        return bool(self.tree.attrs["reliable"])

    @property
    def reasons(self) -> list[str]:
        """Why it is not, in words."""
        return strings(self.tree.attrs["reasons"])

    @property
    def verdict(self) -> str:
        """The whole in a few sentences."""
        return str(self.tree.attrs["verdict"])

    def to_netcdf(self, path: str | Path) -> None:
        """Write everything to a file, the whole of it or none: a file of that name stays where this one cannot be written."""
        save(self.tree, path)

    @classmethod
    def from_netcdf(cls, path: str | Path) -> Self:
        """Read what `to_netcdf` wrote.

        Raises
        ------
        CriterionError
            The file holds another result, or lost a part of this one.
        """
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            lost = [name for name in cls._groups if name not in tree.children] or not {"verdict", "reasons"} <= set(tree.attrs)
            if lost:
                raise CriterionError(f'"{path}" is no file of an {cls.__name__}. Give one that its to_netcdf wrote.')
            return cls(tree.load())

    @property
    @abstractmethod
    def table(self) -> pd.DataFrame:
        """What is worth a first look, as numbers, which `to_latex` and `to_csv` take."""

    @property
    @abstractmethod
    def _shown(self) -> pd.DataFrame:
        """The table as it is printed: rounded, each number with its error."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """Everything that the report says, a sentence each, the verdict first."""

    @property
    def _summary(self) -> Summary:
        return Summary(self.sentences(), self.table, self._shown)

    def __str__(self) -> str:
        return str(self._summary)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._summary._repr_html_()


@dataclass(frozen=True, repr=False)
class Audit(Report):
    """What `BPLS.audit` found; `print` it first.

    The table has a row for each criterion: `table` holds numbers, and what is printed rounds them to their errors. `regret` is
    the exact log PPP that its choice loses against the exact best candidate; `P(best)` is the probability that its choice is
    the exact best, given the Monte Carlo error of exact values. Kendall's tau compares its ranking with the exact one, over all
    candidates and without those that are flagged; `best 5` is the share of its best five among the exact best five. `error` is
    its largest error of log PPP, and `error, centred` the largest but for what all candidates share, which moves no choice.
    `its own k-hat` is that of importance sampling of the posterior from the criterion's own Gaussian: above 0.7 the two differ
    too much for that.

    A candidate is flagged, and `/candidates` says why, where its exact value is doubtful (by k-hat or effective sample size),
    where it is nearer to a neighbour in the exact ranking than its Monte Carlo error, or where a criterion has no score of it.
    Doubtful values count against no criterion. The verdict calls a choice bad or values wrong only where the reference's own
    error does not explain it, at 95% over all candidates together (`regret_proven`, `max_centred_proven`).

    Attributes
    ----------
    tree : xarray.DataTree
        `/candidates`, `/agreement`, `/simplified` and `/diagnostics`, as `to_netcdf` writes it; variables of `/agreement` have
        a `description`.

    See Also
    --------
    BPLS.audit : makes it.
    plot_audit : draws it.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> X = np.column_stack([np.ones(24), np.linspace(-2, 2, 24)])
    >>> y = np.where(np.arange(24) % 2, -1, X[:, 1] + np.tile([0.9, -0.9], 12)[:24] > 0)
    >>> with pm.Model() as model:
    ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
    >>> audit = bpls.BPLS(model).audit(["ppp", "ibpls"], method="psis", random_seed=0)
    >>> audit.reliable
    True
    >>> audit.agreement["tau"].dims
    ('criterion',)
    """

    _groups = ("candidates", "agreement", "simplified", "diagnostics", "refused")

    @property
    def candidates(self) -> xr.Dataset:
        """Scores, exact values, errors and flags over `candidate` (and `label`) and `criterion`."""
        return self.tree["candidates"].to_dataset()

    @property
    def agreement(self) -> xr.Dataset:
        """Agreement with the exact values over `criterion`."""
        return self.tree["agreement"].to_dataset()

    @property
    def simplified(self) -> xr.Dataset:
        """Simplified against full, over `expansion`."""
        return self.tree["simplified"].to_dataset()

    @property
    def diagnostics(self) -> xr.Dataset:
        """How well `class_sum_error` and k-hat tell which candidates Laplace's `ppp` misjudges."""
        return self.tree["diagnostics"].to_dataset()

    @property
    def refused(self) -> dict[str, str]:
        """Criteria that are not defined for this model, with the reason."""
        group = self.tree["refused"].to_dataset()
        return dict(zip(group["criterion"].to_numpy().tolist(), group["why"].to_numpy().tolist(), strict=True))

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each criterion and candidate."""
        return self.candidates.to_dataframe()

    @property
    def table(self) -> pd.DataFrame:
        """What is worth a first look, a row a criterion; `agreement` says what each column is."""
        found = self.agreement
        columns = [name for name in _COLUMNS if name in found]
        return found[columns].to_dataframe() if columns else pd.DataFrame()

    @property
    def _shown(self) -> pd.DataFrame:
        rows = [{str(name): value for name, value in row.items()} for row in self.table.to_dict("records")]
        unflagged = {UNFLAGGED: [_tau(row, "_unflagged") for row in rows]}
        return pd.DataFrame(
            {
                "regret": [plus_minus(row["regret"], row["regret_mcse"]) for row in rows],
                "P(best)": [f"{row['prob_best']:.2f}" for row in rows],
                "Kendall's tau": [_tau(row, "") for row in rows],
                **(unflagged if any(row["n_unflagged"] < row["n_compared"] for row in rows) else {}),
                f"best {self.tree.attrs['top']}": [plus_minus(row["top_k"], row["top_k_mcse"]) for row in rows],
                "error": [_absolute_error(row) for row in rows],
                "error, centred": [_or_dash(row, "max_centred", "max_centred_mcse") for row in rows],
                "its own k-hat": [_or_dash(row, "pareto_k", "pareto_k_mcse") for row in rows],
            },
            index=self.table.index,
        )

    def sentences(self) -> list[str]:
        """The verdict, what the columns of the table are, one of each criterion, simplified against full, the diagnostics, and
        what was left out.
        """
        groups = (self.agreement, self.simplified, self.diagnostics)
        said = [text for group in groups for text in group["verdict"].to_numpy().tolist()]
        columns = list(self._shown.columns) if len(self.table) else []
        legend = [say_columns(columns, int(self.tree.attrs["top"]))] if columns else []
        return [self.verdict, *legend, *said, *say_left_out(self.refused)]


def _tau(row: dict[str, Any], name: str) -> str:
    return with_interval(*(row[f"tau{name}{end}"] for end in ("", "_low", "_high")))


def _absolute_error(row: dict[str, Any]) -> str:
    """The largest error of a criterion that has an absolute value."""
    has_one = row.get("max_error", np.nan) != row.get("max_centred", np.nan)
    return _or_dash(row, "max_error", "max_error_mcse") if has_one else "–"


def _or_dash(row: dict[str, Any], value: str, error: str) -> str:
    return "–" if np.isnan(row.get(value, np.nan)) else plus_minus(row[value], row[error])
