"""What the stored repetitions of a setting say: accuracies in percent, differences paired by repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from validation.paper.runs.curves import grid
from validation.paper.runs.original import EVERY
from validation.paper.runs.repetition import FRESH
from validation.paper.runs.tables import KNOTS
from validation.paper.settings import (
    BY_GLM,
    FEATURES,
    FLAT,
    GLM_SUPERVISED,
    LIKELIHOOD,
    SPLINE,
    SUPERVISED,
    Setting,
)
from validation.study.intervals import LEVEL, Interval
from validation.study.store import Record

FINAL, ALONG, STOPPED, TRUE, LOG_GAIN = "final", "along", "stopped", "true labels", "log score gained"
ORACLE, ORACLE_FRESH = "oracle", "oracle on fresh rows"
_FIRST, _FIRST_ON_TEST = "first", "first on test rows"
_WHEN = (ALONG, FINAL, ORACLE)
#: Nearness to the supervised model, larger where nearer, each along the run, at its end and where the oracle stops: minus the
#: distance of accuracies; the share of rows that both predict alike; and minus KL(supervised ‖ model) of their probabilities.
MOVED, ALIKE, DIVERGENCE = (
    {when: f"{what}, {when}" for when in _WHEN}
    for what in ("nearness of accuracy", "rows predicted alike", "nearness of probabilities")
)

FEWEST = 5


@dataclass(frozen=True)
class Summary:
    """The finished repetitions of a setting, by number.

    Models are judged on fresh rows of the population where there is one, else on the test rows; by the oracle, who stops where
    most test rows are right, on these test rows.
    """

    setting: Setting
    records: Mapping[int, Record]

    @property
    def repetitions(self) -> int:
        """How many there are."""
        return len(self.records)

    @property
    def simulated(self) -> bool:
        """Whether there are fresh rows."""
        return self.setting.features is not None

    @property
    def methods(self) -> list[str]:
        """Those with a whole run in some repetition."""
        return [name for name in self.setting.methods if self.runs(name)]

    def runs(self, method: str) -> int:
        """How many whole runs a method has."""
        return sum(method in each["runs"] for each in self.records.values())

    @property
    def broken(self) -> int:
        """How many runs ended early, of those that should not."""
        expected = {number: set(self.setting.methods_of(number)) - set(FLAT) for number in self.records}
        return sum(len(expected[number] - set(each["runs"])) for number, each in self.records.items())

    @property
    def separated(self) -> int:
        """In how many repetitions the labeled rows were separated."""
        return sum(each["separated"] for each in self.records.values())

    @property
    def features(self) -> int:
        """Columns of the table."""
        return self.setting.features or FEATURES[self.setting.source]

    @property
    def parameters(self) -> int:
        """Of the model."""
        return 1 + self.features * (KNOTS + 1 if self.setting.basis == SPLINE else 1)

    @property
    def labels_a_parameter(self) -> float:
        """Labeled rows for each parameter."""
        return self.setting.sizes.labeled / self.parameters

    def values(self, method: str, measure: str) -> np.ndarray:
        """Percentages (repetitions,), NaN where the method has no whole run."""
        name, how = method, measure
        if method in self._baselines:
            name, how = self._baselines[method], _FIRST_ON_TEST if measure == ORACLE else _FIRST
        runs = [each["runs"].get(name) for each in self.records.values()]
        return np.array([np.nan if run is None else self._measure(run, how) for run in runs])

    def _measure(self, run: Record, how: str) -> float:
        n_test, fresh = self.setting.sizes.test, self.simulated
        counts, n = (run["fresh"], FRESH) if fresh else (run["right"], n_test)
        nothing = [np.nan] * len(_WHEN)
        read: dict[str, Callable[[], float]] = {
            _FIRST: lambda: counts[0] / n,
            _FIRST_ON_TEST: lambda: run["right"][0] / n_test,
            FINAL: lambda: counts[-1] / n,
            ALONG: lambda: run["mean"][fresh] / n,
            STOPPED: lambda: run["stop"][1 + fresh] / n,
            ORACLE: lambda: run["best"][1] / n_test,
            ORACLE_FRESH: lambda: run["best"][1 + fresh] / n,
            TRUE: lambda: run["true"] / self.setting.sizes.candidates,
            LOG_GAIN: lambda: (run["log_score"][1] - run["log_score"][0]) / 100,
            MOVED[ALONG]: lambda: -_moved(run, fresh, counts) / n,
            MOVED[FINAL]: lambda: -abs(counts[-1] - counts[0]) / n,
            MOVED[ORACLE]: lambda: -abs(run["best"][1] - run["right"][0]) / n_test,
        }
        for place, when in enumerate(_WHEN):
            if how == ALIKE[when]:
                return 100 * float(run.get("alike", nothing)[place])
            if how == DIVERGENCE[when]:
                return -100 * float(run.get("divergence", nothing)[place])
        return 100 * read[how]()

    def mean(self, method: str, measure: str = FINAL) -> float:
        """Over repetitions."""
        return float(np.nanmean(self.values(method, measure)))

    def difference(self, first: str, second: str, measure: str = FINAL, level: float = LEVEL) -> Interval:
        """The first method minus the second, in the repetitions that both have."""
        gaps = np.array(list(self.gaps(first, second, measure).values()))
        return Interval.of(gaps[np.isfinite(gaps)], level)

    def gaps(self, first: str, second: str, measure: str) -> dict[int, float]:
        """The same in every repetition, NaN where it lacks one of them."""
        one, other = (self.numbered(method, measure) for method in (first, second))
        return {number: one[number] - other[number] for number in self.records}

    def numbered(self, method: str, measure: str) -> dict[int, float]:
        """The values by number of the repetition."""
        return dict(zip(self.records, self.values(method, measure).tolist(), strict=True))

    def against(self, other: Summary, method: str) -> Interval:
        """A method's final accuracy here minus that in another setting on the same splits."""
        here, there = (each.numbered(method, FINAL) for each in (self, other))
        common = [number for number in here if number in there]
        return Interval.of(np.array([here[number] - there[number] for number in common]))

    def compares(self, first: str, second: str, measure: str) -> bool:
        """Whether some repetition has this difference."""
        return self.has(first, second) and bool(np.isfinite(list(self.gaps(first, second, measure).values())).any())

    def has(self, *methods: str) -> bool:
        """Whether all of these have whole runs."""
        return set(methods) <= {*self.methods, *self._baselines}

    def with_runs(self, *methods: str) -> Summary:
        """Of the repetitions in which all of these were run."""
        return replace(self, records={n: each for n, each in self.records.items() if set(methods) <= set(each["runs"])})

    @property
    def _baselines(self) -> dict[str, str]:
        """Models without pseudo-labels, and a method whose run starts with them."""
        by_glm = [name for name in self.methods if name in BY_GLM]
        with_prior = [name for name in self.methods if name not in by_glm]
        return {name: held[0] for name, held in ((SUPERVISED, with_prior), (GLM_SUPERVISED, by_glm)) if held}

    def curve(self, method: str) -> np.ndarray:
        """Accuracy at the numbers of pseudo-labels that are kept, shape (repetitions, points)."""
        kind, n = ("fresh", FRESH) if self.simulated else ("right", self.setting.sizes.test)
        return 100 * np.array([each["runs"][method][kind] for each in self.records.values() if method in each["runs"]]) / n

    @property
    def points(self) -> np.ndarray:
        """These numbers, as percentages of the pool."""
        m = self.setting.sizes.candidates
        return 100 * grid(m, self.setting.points) / m

    @property
    def rounds_valued(self) -> int:
        """In how many rounds of a run every candidate's original PPP was computed."""
        return len(range(0, self.setting.sizes.candidates, EVERY))

    @property
    def first_by_chance(self) -> float:
        """In what percentage of rounds a random choice takes the first row: the mean of 1/k over pools of k = 1 … m."""
        return float(100 * (1 / np.arange(1, self.setting.sizes.candidates + 1)).mean())

    @cached_property
    def original(self) -> dict[str, float]:
        """Of the original PPP: percentages of its values that are +Inf or fail, and of rounds that take the first row."""
        kept = [each["values"] for each in self.records.values() if "values" in each]
        total = {name: sum(each[name] for each in kept) for name in ("infinite", "finite", "failed", "first")}
        valued = total["infinite"] + total["finite"] + total["failed"]
        rounds = len(kept) * self.setting.sizes.candidates
        since = [each["since"] + 1 for each in kept]
        return {
            "values": valued,
            "infinite": 100 * total["infinite"] / valued,
            "failed": 100 * total["failed"] / valued,
            "first": 100 * total["first"] / rounds,
            "since": float(np.median(since)),
        }


def _moved(run: Record, fresh: bool, counts: Sequence[int]) -> float:
    """Mean distance of the curve from where it starts; of older records at the points that are kept."""
    return run["moved"][fresh] if "moved" in run else float(np.abs(np.array(counts[1:]) - counts[0]).mean())


def joined(with_prior: Summary, without: Summary) -> Summary:
    """The methods of two settings on the same splits, in the repetitions that both have."""
    common = [number for number in with_prior.records if number in without.records]
    both = [each.records for each in (with_prior, without)]
    records = {number: {**both[0][number], "runs": both[0][number]["runs"] | both[1][number]["runs"]} for number in common}
    methods = (*with_prior.setting.methods, *without.setting.methods)
    return Summary(replace(with_prior.setting, methods=methods), records)


def pooled(summaries: Sequence[Summary], first: str, second: str, measure: str = FINAL, level: float = LEVEL) -> Interval:
    """The mean over settings of the first method minus the second."""
    return _over_settings([(each, each.gaps(first, second, measure)) for each in summaries], level)


def average(summaries: Sequence[Summary], method: str, measure: str) -> Interval:
    """The mean over settings of one method."""
    return _over_settings([(each, each.numbered(method, measure)) for each in summaries], LEVEL)


def _over_settings(values: Sequence[tuple[Summary, Mapping[int, float]]], level: float) -> Interval:
    """Every setting counts alike. Settings that share rows and splits are averaged in each repetition that all of them have;
    the others are independent of each other.
    """
    groups: dict[tuple[str, int | None, int], list[dict[int, float]]] = {}
    for each, held in values:
        finite = {number: value for number, value in held.items() if np.isfinite(value)}
        groups.setdefault((each.setting.source, each.setting.features, each.setting.n), []).append(finite)
    means = [_together(held) for held in groups.values()]
    return Interval.of_groups(means, [len(held) for held in groups.values()], level)


def _together(settings: Sequence[Mapping[int, float]]) -> np.ndarray:
    common = sorted(set.intersection(*(set(each) for each in settings)))
    return np.array([[each[number] for each in settings] for number in common]).mean(axis=1)


def enough(summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    """Those with `FEWEST` repetitions or more, where any has so many: the others wait, since they would widen all intervals."""
    fewest = min(FEWEST, max((each.repetitions for each in summaries.values()), default=0))
    return {key: each for key, each in summaries.items() if each.repetitions >= fewest}


def with_predictions(summaries: Sequence[Summary]) -> list[Summary]:
    """Their repetitions that have stored how near the likelihood's models are to the supervised one; older ones have not."""
    held = [
        replace(
            each, records={n: record for n, record in each.records.items() if "alike" in record["runs"].get(LIKELIHOOD, {})}
        )
        for each in summaries
    ]
    return [each for each in held if each.repetitions > 1]


def of(summaries: Mapping[str, Summary], settings: Sequence[Setting]) -> list[Summary]:
    """The summaries of settings that have one."""
    return [summaries[each.key] for each in settings if each.key in summaries]


def weak(summaries: Sequence[Summary]) -> list[Summary]:
    """Those whose prior is centred at 0."""
    return [each for each in summaries if each.setting.prior.centre == "zero"]
