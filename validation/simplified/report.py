"""The study as Markdown, every number from the stored repetitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from validation.simplified.repetition import DRAWS, EVERY
from validation.simplified.rounds import CRITERIA, FULL, SIMPLIFIED
from validation.simplified.settings import FEATURES, POPULATION, PRIOR_SD, SIMULATED, UNLABELED_SHARE
from validation.simplified.summary import GOOD_K, Regret, Summary
from validation.simplified.verdicts import of_setting, overall, vanishing
from validation.study.intervals import LEVEL
from validation.study.markdown import bullets, table
from validation.study.splits import TEST_SHARE

Column = tuple[str, Callable[[Summary], str]]

PROTOCOL = f"""Remade by `python -m validation.simplified`. Supplement F of Rodemann et al. (UAI 2023) compares the full
criterion, `ppp` (Eq. 6), with the simplified one, `ibpls` (Eq. 7), which drops one ℓ_D, by the test accuracy of
self-training. Here, by the paper's protocol: of n rows, drawn anew in every repetition, a share of {TEST_SHARE} is for testing,
and of the rest a share of {UNLABELED_SHARE} is unlabeled; splits without a labeled row of each class are drawn again.
The model is a logistic regression with intercept on features standardised over the whole table, all coefficients
Normal(0, {PRIOR_SD}). A proper prior is needed: ionosphere's labeled rows are fewer than or about as many as its 34 parameters,
so that the maximum likelihood estimate, at which the paper expands, does not exist. Both criteria expand at the same mode,
the maximum of 2ℓ_D + ℓ_i + log π, so that `ibpls` is `ppp` minus ℓ_D there, from the same refits. Pseudo-labels are the
model's predictions; each run adds one a round until the pool is empty. "{SIMULATED}" is the supplement's design with
{FEATURES} features: a population of {POPULATION} rows, of which each repetition draws its own. Sizes are the supplement's, with
these exceptions. It has q = 3 for banknote and 4 for abalone, without saying which features: the first ones of the table are
taken where a title has q, all of them otherwise. It has n = 185 and q = 13 for EEG: the table that can be had has 182 rows and
12 features, with the intercept 13 coefficients (if q counts that, banknote had two features, and abalone three). Abalone with
100 rows is our own."""

READING = f"""- Intervals are {LEVEL:.0%} t intervals over repetitions, of differences paired by repetition. Repetitions on one
  table share rows, and those at ionosphere's largest n nearly all: intervals speak of splits of that table, not of new data.
  None is corrected for their number: where there is no difference, on average one of twenty such intervals excludes 0. The
  counts of gains and of what is lost are given in the verdict after Bonferroni's correction for the number of settings too.
- Both runs end with all rows of the pool in D. They can differ at the end only by the pseudo-labels that they gave, so that
  the average along the run says more about selection than the final accuracy does.
- Regret: log PPP of the best candidate minus that of the choice, where D, the pool and the pseudo-labels are those of the run
  of `{FULL}`, and log PPP is taken by importance sampling of the posterior with D counted twice ({DRAWS} draws,
  Pareto-smoothed), in every {EVERY}th round. Rounds with k-hat above {GOOD_K} are counted and left out. Each mean ± its
  standard error over repetitions (in brackets the part of it that is Monte Carlo error). The best candidate is the best by
  the same draws, which makes both regrets a little too large; their difference has no such bias.
- Along the run of `{FULL}`, D is what `{FULL}` made of it. What `{SIMPLIFIED}` loses along its own run is not measured."""

ACCURACY: tuple[Column, ...] = (
    ("supervised", lambda each: f"{each.supervised.mean():.1f}"),
    *((f"`{name}`, final", lambda each, name=name: f"{each.final(name).mean():.1f}") for name in CRITERIA),
    ("final difference", lambda each: each.final_difference.text()),
    ("difference averaged along the run", lambda each: each.along_difference.text()),
    ("repetitions with the same final accuracy", lambda each: str(each.alike)),
)
GAINS: tuple[Column, ...] = (
    *((f"`{name}`, final", lambda each, name=name: each.gain(name).text()) for name in CRITERIA),
    *((f"`{name}`, along the run", lambda each, name=name: each.gain_along(name).text()) for name in CRITERIA),
    *((f"true labels of `{name}` (%)", lambda each, name=name: f"{each.true_labels(name).mean:.1f}") for name in CRITERIA),
)
CHOICES: tuple[Column, ...] = (
    ("rounds in which they differ (%)", lambda each: each.differ.text("{:.1f}")),
    *((f"regret of `{name}`", lambda each, name=name: _regret(each.regret(name))) for name in CRITERIA),
    (f"`{SIMPLIFIED}` loses more by", lambda each: _regret(each.regret("difference"))),
    ("rounds measured", lambda each: str(each.measured)),
    ("of them excluded", lambda each: str(each.excluded)),
    ("refits without a mode", lambda each: str(each.lost)),
)


def write(summaries: Sequence[Summary], path: Path, figure: str) -> None:
    """Write the report; `figure` is the figure's address from there."""
    parts = [
        "# Simplified versus full",
        PROTOCOL,
        "## Verdict",
        bullets([*overall(summaries), *vanishing(summaries)]),
        "## By setting",
        f"Each difference at {LEVEL:.0%}, uncorrected.",
        bullets([of_setting(each) for each in summaries]),
        f"![Test accuracy along the run, differing choices and regret]({figure})",
        "## Test accuracy (%)",
        _table(ACCURACY, summaries),
        f"Means over repetitions; differences are `{FULL}` minus `{SIMPLIFIED}` in percentage points.",
        "## Gain over the supervised model (percentage points)",
        _table(GAINS, summaries),
        "## Choices at the same D, and the exact log PPP that they lose",
        _table(CHOICES, summaries),
        "## How to read this",
        READING,
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _table(columns: Sequence[Column], summaries: Sequence[Summary]) -> str:
    every: list[Column] = [
        ("setting", lambda each: each.setting.title),
        ("repetitions", lambda each: str(each.repetitions)),
        *columns,
    ]
    return table([name for name, _ in every], [[cell(each) for _, cell in every] for each in summaries])


def _regret(found: Regret | None) -> str:
    if found is None:
        return "none measured"
    error = f"± {found.interval.error:.4f} " if np.isfinite(found.interval.error) else ""
    return f"{found.interval.mean:.4f} {error}({found.monte_carlo:.4f})"
