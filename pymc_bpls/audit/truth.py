"""Exact values of the candidates, from a run of `exact` or known to the user, with what is known of their Monte Carlo error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
import xarray as xr

from pymc_bpls.audit.sentences import GIVEN
from pymc_bpls.errors import CriterionError, RowError
from pymc_bpls.model.data.index import find_rows
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.averages import batch_error
from pymc_bpls.montecarlo.nuts import LEAST_ESS
from pymc_bpls.montecarlo.pareto import GOOD_K
from pymc_bpls.rules.label_rules import LabelRule, Options
from pymc_bpls.rules.ranking import TIED
from pymc_bpls.selftraining.resuming import label_rule_again
from pymc_bpls.text.attributes import strings
from pymc_bpls.text.incomplete import as_it_was_left

_COMPARED, _TOLD_APART = 300, 2.0
#: The share of candidates that may be outliers, and how many times the span of the others the scale is at most.
OUTLYING, STRETCH = 0.1, 3.0
#: Probability of claiming an error that is the reference's own, at most.
_SURELY = 0.05


@dataclass(frozen=True)
class Truth:
    """Exact log PPP of pairs, flat, all of shape (pairs,) unless said.

    Attributes
    ----------
    value : ndarray
        log PPP, or log E[p(ŷ | x, θ)] where it is known up to a constant only.
    error : ndarray
        Monte Carlo standard error of `value` without the constant that all pairs share; 0 where the value is exact.
    batches : ndarray, shape (batches, pairs), or None
        Relative deviations of batch means from `value`, which hold how errors depend on each other. Without them errors count
        as independent.
    absolute : bool
    constant_error : float
        Standard error of the shared constant, where `absolute`.
    absolute_error : ndarray
        Standard error of `value` with that constant.
    doubts : ndarray of str
        Why the value of a pair is not to be trusted, or "".
    reached : ndarray of bool
        Whether the draws reach where the pair's class lives: by k-hat. Where they do not, the reference is wrong, and says
        nothing about the errors of a criterion.
    reasons : tuple of str
        Why none is.
    source : str
        Where the values are from, in words.
    log_predictive : ndarray or None
        log E[p(ŷ | x, θ)] by p_2, where it is known apart from the constant that makes it log PPP.
    """

    value: np.ndarray
    error: np.ndarray
    batches: np.ndarray | None
    absolute: bool
    constant_error: float
    absolute_error: np.ndarray
    doubts: np.ndarray
    reached: np.ndarray
    reasons: tuple[str, ...]
    source: str
    log_predictive: np.ndarray | None = None

    @property
    def known(self) -> bool:
        """Whether the values have no Monte Carlo error."""
        return not self.error.any()

    @property
    def best(self) -> int:
        """The pair with the largest value, the first among equals."""
        return int(np.argmax(np.where(np.isfinite(self.value), self.value, -np.inf)))

    @property
    def range(self) -> float:
        """Largest minus smallest value."""
        return float(np.ptp(self.value[np.isfinite(self.value)]))

    @property
    def scale(self) -> float:
        """What losses and errors are held against: the range, or `STRETCH` times that without the worst `OUTLYING` of the pairs
        where that is smaller, so that a few outliers do not make every choice a good one.
        """
        value = self.value[np.isfinite(self.value)]
        span = float(value.max() - np.quantile(value, OUTLYING))
        return min(self.range, STRETCH * span) if span > TIED else self.range

    @property
    def trusted(self) -> np.ndarray:
        """Whether a pair's value, and with it its standard error, can be held against a criterion."""
        return np.isfinite(self.value) & self.reached & (self.doubts == "")

    def beyond_error(self, size: np.ndarray, spread: np.ndarray) -> float:
        """The largest of `size` (pairs,) that standard errors `spread` do not explain: max (size − t · spread), at least 0.

        t is the two-sided 95% point by Bonferroni's correction over the trusted pairs, the only ones that count, so that this
        is a lower confidence bound of the largest true size; where nothing has an error it is that size.
        """
        some = self.trusted & np.isfinite(size)
        if not some.any():
            return 0.0
        freedom = np.inf if self.batches is None else max(len(self.batches) - 1, 1)
        t = scipy.stats.t.isf(_SURELY / (2 * some.sum()), freedom)
        return max(0.0, float((size[some] - t * spread[some]).max()))

    def difference_error(self, first: np.ndarray | int, second: np.ndarray | int) -> Any:
        """Standard error of value[first] − value[second]."""
        if self.batches is None:
            independent = np.hypot(self.error[first], self.error[second])
            return np.where(np.equal(first, second), 0.0, independent)
        return batch_error(self.batches[:, first] - self.batches[:, second])

    def centred_error(self) -> np.ndarray:
        """Standard error of each value minus the mean of all."""
        if self.batches is None:
            n = len(self.error)
            return np.sqrt(self.error**2 * (1 - 2 / n) + (self.error**2).sum() / n**2)
        return batch_error(self.batches - np.nanmean(self.batches, axis=1, keepdims=True))

    def replicates(self, n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """`n` sets of values that scatter around these as these do around the truth, without the shared constant."""
        for _ in range(n):
            if self.batches is None:
                yield self.value + self.error * rng.normal(size=self.value.shape)
            else:
                b = len(self.batches)
                counts = rng.multinomial(b, np.full(b, 1 / b)) / b
                yield self.value + np.sqrt(b / (b - 1)) * (counts @ self.batches)

    def probability_best(self, pairs: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """How often each of `pairs` has the largest value, ties included, given the Monte Carlo error."""
        if self.known:
            return (self.value[pairs] >= self.value[self.best] - TIED).astype(float)
        return np.mean([values[pairs] >= np.nanmax(values) - TIED for values in self.replicates(n, rng)], axis=0)

    def n_below(self, probability: float) -> int:
        """How many pairs have an exact E[p(ŷ | x, θ)] below this, by more than twice their Monte Carlo error."""
        if self.log_predictive is None:
            return 0
        return int((self.reached & (self.log_predictive + _TOLD_APART * self.error < np.log(probability))).sum())

    def told_apart(self) -> float:
        """The share of differences between two pairs that exceed twice their Monte Carlo error, over at most 300 pairs."""
        order = np.argsort(-self.value, kind="stable")[: np.isfinite(self.value).sum()]
        some = order[np.linspace(0, len(order) - 1, min(len(order), _COMPARED)).astype(int)]
        first, second = np.triu_indices(len(some), 1)
        if not len(first):
            return 1.0
        gap = self.value[some[first]] - self.value[some[second]]
        return float((gap > _TOLD_APART * self.difference_error(some[first], some[second])).mean())

    def near_ties(self) -> np.ndarray:
        """Whether the Monte Carlo error of a pair's difference to its neighbour in the ranking exceeds that difference."""
        order = np.argsort(-self.value, kind="stable")
        gap = -np.diff(self.value[order])
        close = gap < self.difference_error(order[:-1], order[1:])
        found = np.zeros(len(order), dtype=bool)
        found[order[:-1]] |= close
        found[order[1:]] |= close
        return found


def labels_of(exact: Any, labels: str | LabelRule) -> str | LabelRule:
    """The label rule that a run of `exact` was made by, or else `labels`; a rule that is given as an object is the one used.

    Raises
    ------
    CriterionError
        The object is of another rule than the run's, or the run's is one of the user's own and is not given.
    """
    if not isinstance(exact, xr.DataTree) or "labels" not in exact.attrs:
        return labels
    return label_rule_again(str(exact.attrs["labels"]), labels if isinstance(labels, LabelRule) else None, "exact=")


def candidate_of(exact: Any, candidate: str) -> str:
    """What candidates brought to the density in a run of `exact`, or else `candidate`."""
    return str(exact.attrs.get("candidate", candidate)) if isinstance(exact, xr.DataTree) else candidate


def sampler_of(exact: Any) -> dict[str, str]:
    """As attrs, what made the exact values that are given: the sampler of a run of `exact`, where it says one."""
    if exact is None:
        return {}
    return {"sampler": str(exact.attrs.get("sampler", GIVEN)) if isinstance(exact, xr.DataTree) else GIVEN}


def read_exact(exact: Any, problem: Problem, options: Options) -> tuple[Truth, np.ndarray]:
    """Exact values as a user gives them, and their classes, which are those of `options` where `exact` does not say.

    Raises
    ------
    CriterionError
        They are no values of these candidates.
    """
    if isinstance(exact, xr.DataTree) and "log_predictive" in exact:
        exact = exact.to_dataset()
    if isinstance(exact, xr.DataTree):
        with as_it_was_left("exact=", "exact"):
            return from_tree(exact, problem, options.candidates)
    if isinstance(exact, xr.Dataset):
        return from_dataset(exact, problem, options.candidates)
    if options.weigh is not None:
        raise CriterionError(
            f'exact= does not say which classes its values under labels="{options.rule.name}" are of. '
            'Give what exact() returned, or a Dataset with "pseudo_label".'
        )
    return known_values(values_of(exact, options.codes.shape, problem, options.candidates)), options.codes


def from_tree(tree: xr.DataTree, problem: Problem, candidates: np.ndarray) -> tuple[Truth, np.ndarray]:
    """From what `BPLS.exact` returned, with its classes: (m,) or (m, K)."""
    criterion = tree.attrs.get("criterion")
    if "exact" not in tree.children or criterion != "ppp":
        what = f'a run of exact("{criterion}")' if criterion else "no run of exact()"
        raise CriterionError(f'exact= is {what}. Give what exact("ppp") returned, or known values of log PPP.')
    if not problem.has_fingerprint(tree.attrs.get("table")):
        raise CriterionError("exact= is a run of another table or model. Give a run of this BPLS.")
    exact = tree["exact"].to_dataset()
    truth, codes = from_dataset(exact, problem, candidates, finite=False)
    if "batches" in tree.children:
        batches = _aligned(tree["batches"].to_dataset(), candidates)
        if "label" in batches.dims:
            batches = batches.sel(label=exact["label"])
        deviations = batches["deviation"].transpose("batch", "candidate", ...).to_numpy().astype(float)
        truth = replace(truth, batches=deviations.reshape(len(deviations), -1))
    reasons = tuple(strings(tree.attrs["reasons"]))
    constant_error = float(tree.attrs.get("log_normalizer_error", 0.0))
    return replace(truth, constant_error=constant_error, reasons=reasons, source=str(tree.attrs["source"])), codes


def from_dataset(
    exact: xr.Dataset, problem: Problem, candidates: np.ndarray, *, finite: bool = True
) -> tuple[Truth, np.ndarray]:
    """From a Dataset over `candidate` with `log_ppp` (or `log_predictive`), `pseudo_label` where there is no `label`, and
    `mcse` where it is not exact.
    """
    name = next((name for name in ("log_ppp", "log_predictive") if name in exact), None)
    if name is None:
        raise CriterionError('exact= holds neither "log_ppp" nor "log_predictive". Give one of them over "candidate".')
    exact = _aligned(exact, candidates)
    if "label" in exact.dims:
        codes = np.broadcast_to(_codes(problem, exact["label"].to_numpy()), (len(candidates), exact.sizes["label"])).copy()
        exact = exact.transpose("candidate", "label", ...)
    elif "pseudo_label" in exact:
        codes = _codes(problem, exact["pseudo_label"].to_numpy())
    else:
        raise CriterionError('exact= holds no "pseudo_label". Say which class of each candidate its values are of.')
    keys = (name, "log_predictive", "mcse", "log_predictive_mcse", "ess", "pareto_k")
    flat = {key: exact[key].to_numpy().ravel() for key in keys if key in exact}
    truth = known_values(
        flat[name], flat.get("log_predictive_mcse", flat.get("mcse")), absolute=name == "log_ppp", finite=finite
    )
    reached = ~(flat["pareto_k"] > GOOD_K) if "pareto_k" in flat else truth.reached
    if not reached.any():  # no value is better than another: what is compared is this reference, which says that it is bad
        reached = truth.reached
    return (
        replace(
            truth,
            absolute_error=flat.get("mcse", truth.error),
            doubts=_doubts(flat),
            reached=reached,
            log_predictive=flat.get("log_predictive"),
        ),
        codes,
    )


def _codes(problem: Problem, labels: np.ndarray) -> np.ndarray:
    try:
        return problem.codes(labels)
    except KeyError as error:
        raise CriterionError(
            f"exact= holds the class {error}, and the classes are {problem.classes.names.tolist()}. Use these."
        ) from None


def known_values(value: np.ndarray, error: np.ndarray | None = None, *, absolute: bool = True, finite: bool = True) -> Truth:
    """Values that the user knows, exactly where there is no `error`."""
    value = np.asarray(value, dtype=float)
    error = np.zeros_like(value) if error is None else np.asarray(error, dtype=float)
    if finite and (not np.isfinite(error).all() or (error < 0).any()):
        raise CriterionError("exact= has standard errors that are negative or not finite. Give 0 where a value is exact.")
    if finite and not np.isfinite(value).all():
        bad = int((~np.isfinite(value)).sum())
        raise CriterionError(f"exact= is not finite for {bad} of {len(value)} values. Give a finite number for each.")
    nothing = np.full(value.shape, "", dtype=object)
    return Truth(value, error, None, absolute, 0.0, error, nothing, np.ones(value.shape, dtype=bool), (), GIVEN)


def values_of(exact: Any, shape: tuple[int, ...], problem: Problem, candidates: np.ndarray) -> np.ndarray:
    """Known values, flat, as an array in the order of the candidates or anything with their index."""
    if isinstance(exact, pd.Series | pd.DataFrame):
        exact = _in_order(exact, problem.table.index[candidates])
    if isinstance(exact, xr.DataArray) and "candidate" in exact.dims:
        exact = _aligned(exact, candidates).transpose("candidate", ...)
    try:
        values = np.asarray(exact, dtype=float)
    except (TypeError, ValueError) as error:
        raise CriterionError(
            f"exact= is a {type(exact).__name__} and no numbers. Give a run of exact(), a Dataset, or an array of log PPP."
        ) from error
    if values.shape != shape:
        of_each = f"{shape[0]} candidates" + (f" and {shape[1]} classes" if len(shape) > 1 else "")
        raise CriterionError(f"exact= has shape {values.shape}. Give one value for each of the {of_each}, in their order.")
    return values.ravel()


def _in_order(exact: Any, index: pd.Index) -> Any:
    """A Series or DataFrame in the order of the candidates, by their index."""
    try:
        places = find_rows(index, exact.index, len(exact), "exact=")
    except RowError:
        places = np.empty(0, dtype=int)
    if not len(places) == len(exact) == len(index):
        raise CriterionError("exact= has another index than the candidates. Give an array in their order, or use their index.")
    return exact.iloc[places]


def _aligned(exact: Any, candidates: np.ndarray) -> Any:
    """The same in the order of the candidates, by the coordinate `candidate` where there is one."""
    if "candidate" not in exact.dims or exact.sizes["candidate"] != len(candidates):
        raise CriterionError(
            f'exact= has sizes {dict(exact.sizes)}, and there are {len(candidates)} candidates. Give values over "candidate".'
        )
    if "candidate" not in exact.coords:
        return exact
    if set(exact["candidate"].to_numpy().tolist()) != set(candidates.tolist()):
        raise CriterionError("exact= is of other candidates. Use the run of this table, made before rows were added.")
    return exact.sel(candidate=candidates)


def _doubts(flat: dict[str, np.ndarray]) -> np.ndarray:
    """What speaks against the value of single pairs."""
    doubts = np.full(len(next(iter(flat.values()))), "", dtype=object)
    if "ess" in flat:
        doubts[flat["ess"] < LEAST_ESS] = f"effective sample size below {LEAST_ESS:.0f}"
    if "pareto_k" in flat:
        doubts[flat["pareto_k"] > GOOD_K] = f"k-hat of the reference above {GOOD_K}"
    return doubts
