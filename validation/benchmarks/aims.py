"""What was aimed at, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.study.markdown import table

Results = dict[str, Any]
Measured = Callable[..., float]


@dataclass(frozen=True)
class Aim:
    """What is `measured` of the results by these names is to be at most `bound`, or `at_least`."""

    what: str
    of: tuple[str, ...]
    measured: Measured
    bound: float
    unit: str = "times"
    at_least: bool = False

    def row(self, results: Results) -> list[str]:
        """A row of the table; "–" where it was not measured."""
        wanted = f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}"
        if any(not results.get(name) for name in self.of):
            return [self.what, "–", wanted, "not measured"]
        found = self.measured(*(results[name] for name in self.of))
        met = found >= self.bound if self.at_least else found <= self.bound
        return [self.what, f"{found:.3g} {self.unit}", wanted, "met" if met else "missed"]


def over(numerator: str, denominator: str) -> Measured:
    """Median of the ratios of two times that were taken in turn."""
    return lambda found: float(np.median(np.array(found[numerator]) / np.array(found[denominator])))


def typical(name: str) -> Measured:
    """Median of times that were taken several times, or the only one."""
    return lambda found: float(np.median(found[name]))


def _growth(few: dict[str, Any], many: dict[str, Any]) -> float:
    """Exponent of the processors' seconds in the number of groups, from 500 to 5,000."""
    return float(np.log10(many["cpu_seconds"] / few["cpu_seconds"]))


CASE = "simulation-400"
SMALL = "gaussian-20-80-20"
MILLION, HUNDRED_THOUSAND = "pool 100 1000000 60", "growth 40 100000 60"
R = f"original {CASE} 160"
MANY = "groups 20000 40000 40000 ep"
AIMS = (
    Aim("a round by refits, n = 40, m = 160, q = 61, of scikit-learn's", (f"round {CASE}",), over("round", "sklearn_round"), 4),
    Aim("a round by EP, the same", (f"round {CASE}",), over("ep_round", "sklearn_round"), 2),
    Aim("a run of 160 rounds by EP, of scikit-learn's", (f"run {CASE}",), over("ep_run", "sklearn_run"), 2),
    Aim("the same", (f"run {CASE}",), typical("ep_run"), 3, "s"),
    Aim(
        "that round by refits, R's time over ours",
        (R, f"round {CASE}"),
        lambda original, found: original["r_round"] / float(np.median(found["round"])),
        100,
        at_least=True,
    ),
    Aim(
        "that run with cold start, R's time over ours",
        (R, f"cold {CASE}"),
        lambda original, cold: original["r_rounds"] / cold["cold_run"],
        25,
        at_least=True,
    ),
    Aim("n = 40, m = 160: a round by EP at q = 5,000, of that at q = 60", ("features 5000",), over("ep", "ep_60"), 2),
    Aim("a scoring by refits, the same", ("features 5000",), over("laplace", "laplace_60"), 2),
    Aim("q = 20,000, construction to first scores", ("features 20000",), typical("first_scores"), 20, "s"),
    Aim("the same, peak memory", ("features 20000",), typical("peak_gib"), 2, "GiB"),
    Aim("digits, 10 classes, 40 labels, 160 candidates: `ppp` by refits", ("digits",), typical("refits"), 2, "s"),
    Aim("the same, `probability` by one fit", ("digits",), typical("one_fit"), 1, "s"),
    Aim("10^5 candidates, 60 features, by refits", (HUNDRED_THOUSAND,), typical("seconds"), 30, "s"),
    Aim("the same, peak memory", (HUNDRED_THOUSAND,), typical("peak_gib"), 4, "GiB"),
    Aim("10^6 candidates, 60 features, by EP", (MILLION,), typical("seconds"), 10, "s"),
    Aim("the same, peak memory", (MILLION,), typical("peak_gib"), 4, "GiB"),
    Aim(
        "the same, of the product X S",
        (MILLION,),
        lambda found: found["seconds"] / float(np.median(found["product"])),
        3,
    ),
    Aim("20 rounds of a small hierarchy, the first time, of a warm run", ("small_hierarchy",), over("first", "warm"), 2),
    Aim("process start to first scores, of `import pymc, jax`", (f"start {SMALL}",), over("first_scores", "imports"), 1.7),
    Aim(
        "1,000 / 5,000 rows, 1,500 groups: first scores by refits",
        ("groups 1000 5000 1500 laplace",),
        typical("seconds"),
        15,
        "s",
    ),
    Aim("the same by one fit", ("groups 1000 5000 1500 ep",), typical("seconds"), 5, "s"),
    Aim("20,000 / 40,000 rows, 40,000 groups, by one fit", (MANY,), typical("seconds"), 60, "s"),
    Aim("the same, peak memory", (MANY,), typical("peak_gib"), 4, "GiB"),
    Aim(
        "exponent of the growth in groups by one fit, 500 to 5,000",
        ("groups 1000 5000 500 ep", "groups 1000 5000 5000 ep"),
        _growth,
        1,
        "",
    ),
)


def aims(results: Results) -> str:
    """All aims as a table."""
    return table(["aim", "measured", "wanted", ""], [each.row(results) for each in AIMS])
