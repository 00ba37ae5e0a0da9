"""Scores of one partition: its rows are read and checked, and scored by what scores a table, on the worker.

A partition is a table of its own here. The fit on D, the Gaussian and the criterion come from where D is; so do row spaces,
beside whose rows, those of D, the partition's stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pymc_bpls.approximations.gaussians.gaussian import Gaussian
from pymc_bpls.approximations.predictions.predictive import Predictive, log_softmax
from pymc_bpls.compute.chunks import map_rows
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.threads import as_worker
from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.row_engine import RowEngine
from pymc_bpls.engine.rows.affine_rows import AffineRows
from pymc_bpls.engine.rows.loadings import Loadings
from pymc_bpls.engine.rows.reduced_rows import ReducedRows
from pymc_bpls.engine.rows.row_space import RowSpace
from pymc_bpls.errors import CriterionError
from pymc_bpls.lazy.best import Best
from pymc_bpls.lazy.code import Code
from pymc_bpls.lazy.parts import Part
from pymc_bpls.lazy.rows import Container, check_groups, check_leaves, read_rows
from pymc_bpls.lazy.statistics import Statistics
from pymc_bpls.lazy.stores import Store
from pymc_bpls.rules.label_rules import LabelRule, read_options
from pymc_bpls.scoring.by_fit import combined_classes, log_scale, score_by_fit
from pymc_bpls.scoring.criteria import CRITERIA, Criterion, FitCriterion
from pymc_bpls.scoring.results import Pairs, Values, judged, largest_error, rank_pairs

_ROWS = 2**10, 2**12
_ROWS_OF_BLOCK = 2**12


@dataclass(frozen=True)
class PartDensity:
    """Rows of a partition for the functions of a model: what a `Density` is to its table."""

    structure: Any
    data: tuple[np.ndarray, ...]
    start: np.ndarray

    @property
    def dimension(self) -> int:
        """q."""
        return len(self.start)

    @property
    def class_values(self) -> np.ndarray:
        """What the class codes stand for."""
        return self.structure.class_values

    def take(self, positions: np.ndarray) -> tuple[np.ndarray, ...]:
        """The inputs of some rows."""
        return tuple(values[positions] for values in self.data)


@dataclass(frozen=True)
class PartPredictive(Predictive):
    """Predictions for the rows of a partition, as `Predictive` makes them for all rows of the pool at once.

    `many` says whether these are worth a table, `closer` by what factor nodes are closer than the rules say.
    """

    many: bool = False
    closer: int = 1

    def are_many(self, n: int) -> bool:
        """Whether all rows of the pool are, however few of them the partition has."""
        return self.many

    @cached_property
    def refinement(self) -> int:
        """That of the table on which D is."""
        return self.closer


@dataclass(frozen=True)
class Averaging:
    """The Gaussian that a criterion averages over, and what its absolute value has beyond the logarithm of the average."""

    gaussian: Gaussian
    space: RowSpace | None
    constant: float = 0.0


@dataclass(frozen=True)
class PoolScorer:
    """What scores any partition of a pool: the code of the model, the fit on D, and how to score.

    `criterion` is named, or one's own. `averaging` is there for EP and VI; `predicted_by` where pseudo-labels are predicted by
    averages instead of the mode. `present` (K,) says which classes have a labeled row, `conditional` what a candidate brings
    (`RowEngine`). Rows `left_out` (ascending numbers) are no candidates.
    """

    code: Code
    criterion: str | Criterion | FitCriterion
    rule: LabelRule
    present: np.ndarray
    mode: Mode
    mode_space: RowSpace | None
    averaging: Averaging | None
    predicted_by: Averaging | None
    random_state: Mapping[str, Any]
    conditional: bool
    many: bool
    closer: int
    top: int
    left_out: np.ndarray
    store: Store | None = None


@dataclass(frozen=True)
class Reply:
    """What a worker sends of a partition: its best pairs and its statistics."""

    number: int
    best: Best
    statistics: Statistics


def score_part(scorer: PoolScorer, part: Part) -> Reply:
    """Read, check and score a partition, some rows at a time, and write its scores where the scorer has a store."""
    with as_worker():
        held = read_rows(part, scorer.code.containers)
        blocks = [_BlockScores.of(scorer, part, first, held) for first in range(0, part.n, _ROWS_OF_BLOCK)]
        reply = _reply(scorer, part, [block.scores() for block in blocks])
        if scorer.store is not None:
            scorer.store.keep(part.number, reply)
        return reply


def _reply(scorer: PoolScorer, part: Part, found: Sequence[_Scored]) -> Reply:
    """The best of all rows, and their statistics."""
    if not found:
        if scorer.store is not None:
            scorer.store.write(part, np.empty(0), np.empty(0, dtype=np.int64))
        return Reply(part.number, Best.none(), Statistics.none(len(scorer.present)))
    scores, codes = (np.concatenate([getattr(each, name) for each in found]) for name in ("scores", "codes"))
    numbers = np.setdiff1d(part.first + np.arange(part.n), scorer.left_out)
    pairs, values = rank_pairs(scores, codes)
    best = Best.of(values, numbers[pairs[:, 0]], pairs[:, 1], scorer.top) if scorer.top else Best.none()
    if scorer.store is not None:
        scorer.store.write(part, scores, codes)
    error = max(each.error for each in found)
    return Reply(part.number, best, Statistics.of(scores, codes, numbers, len(scorer.present), error))


@dataclass(frozen=True)
class Chosen:
    """Which rows of each partition, by its number, are wanted, by their places in it."""

    containers: Sequence[Container]
    rows: Mapping[int, np.ndarray]


def read_chosen(chosen: Chosen, part: Part) -> dict[str, np.ndarray]:
    """The rows of a partition that are wanted."""
    with as_worker():
        rows = chosen.rows[part.number]
        return {name: values[rows] for name, values in read_rows(part, chosen.containers).items()}


class _Scored(NamedTuple):
    """Scores (m,) or (m, K) of rows, NaN where there is none, their pseudo-labels (m,), and the largest error."""

    scores: np.ndarray
    codes: np.ndarray
    error: float


@dataclass(frozen=True)
class _BlockScores:
    """Rows of a partition that are scored together, from number `first` of the pool on."""

    scorer: PoolScorer
    first: int
    predictive: PartPredictive

    @classmethod
    def of(cls, scorer: PoolScorer, part: Part, start: int, held: Mapping[str, np.ndarray]) -> _BlockScores:
        """From the rows `held` of a partition, those from place `start` on."""
        some = [values[start : start + _ROWS_OF_BLOCK] for values in held.values()]
        density: Any = PartDensity(scorer.code.functions, row_inputs_of(scorer.code, part, start, some), scorer.code.start)
        engine: Any = RowEngine(density, Compiler(), conditional=scorer.conditional)
        return cls(scorer, part.first + start, PartPredictive(engine, scorer.many, scorer.closer))

    def scores(self) -> _Scored:
        """Of the rows that are candidates."""
        rows = np.arange(len(self.predictive.density.data[0]))
        return self._scores(np.setdiff1d(rows, self.scorer.left_out - self.first))

    def _scores(self, positions: np.ndarray) -> _Scored:
        scorer = self.scorer
        criterion = CRITERIA[scorer.criterion] if isinstance(scorer.criterion, str) else scorer.criterion
        options = read_options(scorer.rule, positions, self._log_probabilities(positions), scorer.present)
        result = self._values(criterion, Pairs.of(positions, options.codes))
        weighing = None
        if options.weigh is not None:
            to_log = log_scale(criterion, by_laplace=scorer.averaging is None)
            result, weighing = combined_classes(result, options.weigh, to_log)
        usable, codes = judged(result, options, weighing)
        return _Scored(np.where(usable, result["score"], np.nan), codes, float(result.attrs.get("score_error", 0.0)))

    def _values(self, criterion: Criterion | FitCriterion, pairs: Pairs) -> Values:
        scorer = self.scorer
        if scorer.averaging is None:
            assert isinstance(criterion, FitCriterion)
            return score_by_fit(criterion, self._rng(pairs), self.predictive, self._mode, pairs)
        averages = self.predictive.mean_lik_of(self._gaussian(scorer.averaging), pairs.rows, pairs.codes)
        return Values({"score": pairs.variable(averages.log_mean + scorer.averaging.constant)}, largest_error(averages.error))

    def _log_probabilities(self, positions: np.ndarray) -> np.ndarray:
        by = self.scorer.predicted_by
        if by is None:
            return self.predictive.log_probabilities_at(self._mode, positions)
        return log_softmax(self.predictive.log_mean_lik(self._gaussian(by), positions, normalised=True))

    @cached_property
    def _mode(self) -> Mode:
        return replace(self.scorer.mode, rows=self._reduced(self.scorer.mode_space))

    def _gaussian(self, averaging: Averaging) -> Gaussian:
        return replace(averaging.gaussian, rows=self._reduced(averaging.space))

    def _reduced(self, space: RowSpace | None) -> ReducedRows | None:
        """The partition's rows in the coordinates of D's."""
        if space is None:
            return None
        rows = self._affine_rows
        return ReducedRows(rows, space, Loadings(rows.design, space))

    @property
    def _affine_rows(self) -> AffineRows:
        rows = self.predictive.engine.affine_rows
        assert rows is not None
        return rows

    def _rng(self, pairs: Pairs) -> np.random.Generator:
        """The random numbers that these pairs get of those of the whole pool, one a pair in order."""
        state = self.scorer.random_state
        bits: Any = getattr(np.random, state["bit_generator"])()
        bits.state = dict(state)
        if not hasattr(bits, "advance"):
            raise CriterionError(
                f"{state['bit_generator']} cannot be moved ahead to the random numbers of a partition. Give a whole number in "
                "random_seed=."
            )
        ahead = self.first - int(np.searchsorted(self.scorer.left_out, self.first))
        bits.advance(ahead * (pairs.codes.size // max(1, pairs.shape[0])))
        return np.random.Generator(bits)


def row_inputs_of(code: Code, part: Part, start: int, held: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The row inputs of rows of a partition, the place of each row first, checked; `held` are their containers."""
    n = len(held[0])

    def some(rows: np.ndarray) -> Sequence[np.ndarray]:
        return [np.asarray(values) for values in code.inputs_of(*(values[rows] for values in held))]

    values = map_rows(some, n, _ROWS)
    count = len(values) - len(code.groups)
    check_leaves(part, start, dict(enumerate(values[:count])))
    check_groups(part, start, code.groups, values[count:])
    return (np.arange(n), *values[:count])
