"""The report's wording: names of methods and priors, numbers and verdicts in words, and the paragraphs around the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from validation.paper.hypotheses import GOOD, POOR
from validation.paper.runs.original import EVERY
from validation.paper.runs.repetition import FRESH
from validation.paper.runs.tables import POPULATION, SHIFT, WIGGLY
from validation.paper.settings import (
    CODE,
    EP,
    GLM_LIKELIHOOD,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_SUPERVISED,
    GLM_VARIANCE,
    IBPLS,
    LIKELIHOOD,
    MARGINAL,
    ORIGINAL,
    PPP,
    PROBABILITY,
    RANDOM,
    REFERENCE,
    SUPERVISED,
    UBPLS,
    VARIANCE,
    WEAK,
    Prior,
)
from validation.paper.summary import ALONG, FEWEST, FINAL, ORACLE, Summary
from validation.paper.verdicts import MARGIN, Comparison, Verdict
from validation.study.intervals import LEVEL, Interval
from validation.study.markdown import table
from validation.study.splits import TEST_SHARE

NAMES = {
    EP: "PPP",
    PPP: "PPP (Laplace)",
    IBPLS: "iBPLS",
    MARGINAL: "marginal likelihood",
    LIKELIHOOD: "likelihood",
    VARIANCE: "variance",
    PROBABILITY: "probability",
    RANDOM: "random",
    UBPLS: "uBPLS",
    REFERENCE: "`reference`",
    ORIGINAL: "original PPP",
    GLM_RANDOM: "random by `glm`",
    GLM_VARIANCE: "variance by `glm`",
    GLM_PROBABILITY: "probability by `glm`",
    GLM_LIKELIHOOD: "likelihood by `glm`",
    SUPERVISED: "supervised",
    GLM_SUPERVISED: "supervised by `glm`",
}
#: In a sentence.
LONG = {
    SUPERVISED: "the supervised model",
    RANDOM: "random selection",
    PROBABILITY: "the probability score",
    GLM_RANDOM: "random selection by `glm`",
    GLM_SUPERVISED: "its supervised model",
}
CENTRES = {
    "zero": "around 0",
    "truth": "around the truth",
    "flipped": "around the truth with wrong signs",
    "shifted": "around the truth shifted by 1",
    "none": "no prior",
}

Column = tuple[str, Callable[[Summary], str]]
NONE = "–"


def prior_in_words(given: Prior) -> str:
    """A prior in words."""
    return f"{CENTRES[given.centre]}, sd {given.sd:g}"


def accuracy(method: str, measure: str = FINAL) -> Column:
    """A column of mean accuracies."""

    def cell(each: Summary) -> str:
        return f"{each.mean(method, measure):.1f}{_of_fewer(each, method)}" if each.has(method) else NONE

    return NAMES[method], cell


def _of_fewer(each: Summary, *methods: str) -> str:
    """How many repetitions have all of these, where some have not."""
    common = int(np.isfinite([each.values(method, FINAL) for method in methods]).all(axis=0).sum())
    return f" ({common})" if common < each.repetitions else ""


def difference(first: str, second: str, measure: str = FINAL) -> Column:
    """A column of paired differences."""

    def cell(each: Summary) -> str:
        if not each.has(first, second):
            return NONE
        return bold(each.difference(first, second, measure)) + _of_fewer(each, first, second)

    return f"{NAMES[first]} − {NAMES[second]}", cell


def join_parts(parts: Sequence[str]) -> str:
    """Parts of a sentence."""
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def bold(interval: Interval, form: str = "{:+.1f}") -> str:
    """An interval in bold where it excludes 0."""
    text = interval.text(form)
    return f"**{text}**" if interval.sign else text


def comparison_in_words(found: Comparison, *, widened: bool = False) -> str:
    """A comparison in words, with the interval that decides a claim."""
    what = "" if found.measure == FINAL else f", {found.measure}"
    methods = f"{NAMES[found.first]} − {NAMES[found.second]}"
    signs = f" ({found.above} above, {found.below} below)" if found.settings > 1 else ""
    ends = f", {_ends(found)}" if widened else ""
    return f"{methods}{what}: {bold(found.interval, _form(found))}{ends}, over {count_settings(found.settings)}{signs}"


def _form(found: Comparison) -> str:
    """Nearness differs by less than accuracies do."""
    return "{:+.2f}" if _of_nearness(found) else "{:+.1f}"


def _of_nearness(found: Comparison) -> bool:
    return found.measure not in (FINAL, ALONG, ORACLE)


def _ends(found: Comparison) -> str:
    low, high = (_form(found).format(end) for end in (found.wide.low, found.wide.high))
    return f"widened to [{low}, {high}]"


def verdict_in_words(verdict: Verdict) -> str:
    """A verdict, and what speaks against the claim."""
    said = [_against(each) for each in verdict.against] or [_crowded(each) for each in verdict.crowded]
    return f"{verdict.word.capitalize()}: {'; '.join(said)}." if said else f"{verdict.word.capitalize()}."


def _against(found: Comparison) -> str:
    first, second = NAMES[found.first], NAMES[found.second]
    if _of_nearness(found):
        return f"{second} is nearer than {first}"
    if found.wide.high < 0:
        return f"{first} is below {second}"
    if found.wide.low > MARGIN:
        return f"{first} is more than {MARGIN:g} point above {second}"
    if found.wide.low > 0:
        return f"{first} is above {second}, but by less than {MARGIN:g} point"
    return f"{first} is less than {MARGIN:g} point above {second}, if at all"


def _crowded(found: Comparison) -> str:
    at = f"{100 - found.room:.1f}%"
    return f"{NAMES[found.second]} is at {at}, so that nothing can be {MARGIN:g} point above it"


def verdict_in_brief(verdict: Verdict | None) -> str:
    """A verdict, and the comparisons that speak against the claim."""
    if verdict is None:
        return NONE
    against = [f"{NAMES[each.first]} − {NAMES[each.second]}" for each in verdict.against]
    return f"{verdict.word} ({', '.join(against)})" if against else verdict.word


def position(interval: Interval, than: str) -> str:
    """Where something stands to something else."""
    if interval.sign == 0:
        return f"not to be told from {than} ({interval.text('{:+.1f}')})"
    low, high = sorted((abs(float(interval.low)), abs(float(interval.high))))
    side = "above" if interval.sign > 0 else "below"
    return f"**{abs(float(interval.mean)):.1f} [{low:.1f}, {high:.1f}] points {side}** {than}"


def count_settings(settings: int) -> str:
    """How many settings."""
    return f"{settings} setting{'' if settings == 1 else 's'}"


def by_setting(columns: Sequence[Column], summaries: Sequence[Summary], first: Column | None = None) -> str:
    """A table with a row for each setting, which says how many repetitions it rests on; cells of fewer say so themselves."""
    every: list[Column] = [
        first or ("setting", lambda each: each.setting.title),
        ("R", lambda each: str(each.repetitions)),
        *columns,
    ]
    return table([name for name, _ in every], [[cell(each) for _, cell in every] for each in summaries])


def titles(summaries: Sequence[Summary]) -> str:
    """Settings in brackets, if there are any."""
    return f" ({'; '.join(dict.fromkeys(each.setting.title for each in summaries))})" if summaries else ""


ABOUT_PROTOCOL = f"""\
Made by `python -m validation.paper`. Section 4 of Rodemann et al. (UAI 2023) and its supplement, by their
protocol: of n rows a share of {TEST_SHARE} is for testing, and of the rest a share of 0.8 or 0.9 is unlabeled (splits without
a labeled row of each class are drawn again); a run adds one pseudo-labeled row a round, with the label that the model predicts,
until the pool is empty. Where this study departs from the paper:

- The model is Bayesian, but for `uBPLS`, `reference` and what is "by `glm`": a logistic regression with intercept on features
  standardised over the table, coefficients Normal(0, {WEAK.sd:g}²) unless a prior is named. With few labels the classes are
  mostly separated, and the maximum of the likelihood, on which the paper's criteria rest, does not exist. "Likelihood"
  (max-max, Theorem 3) is therefore taken at the mode with the prior; `uBPLS` and `reference`, which have no prior, are run
  only where the labeled rows are not separated.
- "PPP" is the pseudo posterior predictive by expectation propagation, the most exact of the package's fast approximations;
  Laplace's, which is the paper's (Eq. 6), is beside it.
- All methods are compared on equal terms: the accuracies are those of the models that hold 0 to m pseudo-labels. The authors'
  code took the model before adding the row for some methods and after adding it for others.
- Simulated rows come from a population of {POPULATION}, of which n are drawn anew in every repetition (the authors' script
  drew one table for each n and repeated its splits). Models are judged on {FRESH} further rows of it, which measures the same
  accuracy with less noise than n/2 test rows; the oracle sees the test rows only, as in the paper.
- "{CODE}" is the design of the authors' script: q = 60 features, of which the first acts. The means and scales of the 59
  others, which they typed, are drawn here. "Supplement" is the design that the paper describes in words: all features act. It
  prints no coefficients; here features are standard normal, and one random vector of coefficients for each q gives the logit a
  standard deviation of about 3. Its twenty pairs (n, q) are the paper's; a grid of fewer rows for as many features is our own.
- The paper reports accuracies where an oracle would stop, at the best model on the test rows, and with all pseudo-labels. Here
  three measures are shown. "Final" is with all pseudo-labels; "along" is the mean over the run, from the first pseudo-label to
  the last; "oracle" is the best of the run, the supervised model among them for every method. Hypotheses are judged by the
  first, H2a by the second, what the paper says of a table by the third, and all by all beside it.
- The original PPP is an emulation of the authors' code: R's `glm` on raw features (at most 25 steps, dependent columns
  dropped, separated fits as they end), a determinant that underflows, ties to the first row. Its rivals by `glm` are beside it.
- GAM: cubic splines of every feature with a fixed penalty on roughness, as normal coefficients whose sd is {WIGGLY:g} of the
  straight part's; "curved effects" has sinusoidal effects of 3 features. No script of the authors for it was found."""

ABOUT_VERDICTS = f"""\
Each of the paper's claims as paired comparisons. Differences are in percentage points, averaged over settings
and paired by repetition, with {LEVEL:.0%} intervals; PPP is by EP.

- That one method beats several is not supported where an interval that is widened for their number (Bonferroni) ends below
  {MARGIN:g} point, the least advantage that we call one; else it is supported where every interval is above 0. Where a method
  is within {MARGIN:g} point of 100%, nothing can be so far above it, and this comparison does not speak against a claim.
- That some method beats another is supported where one of the widened intervals is above 0; else it is not supported where all
  {LEVEL:.0%} intervals end below {MARGIN:g} point and there is room for it.
- That methods hardly improve, or are head to head, is not supported where a widened interval is above {MARGIN:g} point; else it
  is supported where every interval ends below {MARGIN:g} point (head to head: of either difference).
- That a method stays nearest to the supervised model is not supported where a widened interval says that another is nearer, by
  however little; else it is supported where it is nearer than each other one by an interval above 0.
- By the oracle no method is below the supervised model, whatever it selects. Whether a method hardly gains is therefore asked
  there of what it gains beyond random selection.
- Anything else is undecided.

A claim is about the mean over its settings, in which opposite signs cancel: in brackets is in how many settings the interval of
the setting alone, which is not corrected, is above and below 0. "Widened" intervals decide where a rule names them: where one
comparison of several settles a claim. Where all have to hold at once, the {LEVEL:.0%} ones do.

Three of these rules were amended after results had been seen: the room below 100% and gains beyond random selection's by the
oracle, without which some claims could not but fail; and that an easy setting, of H1b, has more labels than parameters, where
as many were enough at first.

H2a has three definitions of nearness. H3 has two readings: the paper compares with non-Bayesian methods, to which a
prior's information is not available; rivals that hold the same prior isolate the selection."""

ABOUT_WINNERS = f"""\
The methods are PPP, likelihood, variance and probability, and at the end the supervised model, which no method is
below by the oracle. A setting "agrees" where the printed winner is above every other method by intervals that are widened for
the table's twenty settings (Bonferroni); printed together, two winners must also be within {MARGIN:g} point of each other. It
"contradicts" where another method is above a printed winner, or one of two winners over {MARGIN:g} point above the other, by
intervals that are widened for the number of comparisons too. Otherwise it cannot tell. Printed intervals are {LEVEL:.0%} ones,
which are not widened, of the first printed winner's difference to the best other method by its mean; being chosen by its mean
makes that rival look a little better. The supervised model has our prior, and the paper's had none: the last column is the
verdict among the four methods that select rows, with all pseudo-labels."""

ABOUT_WITHOUT_PRIOR = """\
All runs of a row are on the same splits. "By `glm`" fits without a prior on the same columns, as R does where labels
are separated or columns depend on each other. What stands between PPP with a prior and a rival without one is the prior, the
selection and their interplay together; the column of supervised models has no selection in it."""

ABOUT_OTHER_VERDICTS = """\
Whether the verdict hangs on the measure or on the approximation of PPP; in brackets, against which methods the
claim fails. At the end all runs hold the same rows, with other labels. The oracle's accuracies are never below the supervised
model's on the same rows. The last two columns are by the hypothesis's own measure, in bold, over the settings and repetitions
in which Laplace's PPP was run too."""

ABOUT_ORIGINAL = f"""\
In the first table an advantage is random selection's and the criterion's together; "by `glm`" is as the
original code fits, on raw features and without a prior. In the last one accuracies are final. All candidates are valued in
every {EVERY}th round, so that short runs are valued in their first round or two only; which row is taken is known of every
round. Rows are offered in random order, so that taking the first one is random selection, and "random by `glm`" offers the
same rows in the same order: where the first row is always taken both are the same run. Of several values of +Inf the first is
taken, which need not be the first row where other fits fail or are finite. The round from which on the first row is always
taken is a median over repetitions; a pool of one has no other, and "by chance" is how often a random choice takes the first
row. An advantage by the oracle over a supervised model is never negative, whatever selects."""

ABOUT_PRIORS = f"""\
All methods have the prior in question. "Shifted" adds {SHIFT:g} to every coefficient. The last two columns are what a
prior gains or costs against the weak one (around 0, sd {WEAK.sd:g}) on the same splits: of the supervised model, and of PPP
with all pseudo-labels. For a GAM the truth is the nearest spline's."""

ABOUT_LABELS = """\
Over the settings of the main tables that have all these methods, against the supervised model. The log score is
the mean log probability of the true classes: a gain in accuracy that costs log score is bought with overconfidence. Laplace's
PPP has fewer repetitions of real data than the others; the paired difference is further below."""

ABOUT_STOPPING = """\
Gain over the supervised model in points (of the original code's methods over theirs), over the simulated
settings of the main tables that have all methods of a kind. The oracle stops where most test rows are right and is credited
with these rows; among so many models on so few rows the best is partly the luckiest, and the same model on fresh rows shows
how much of its gain is real. A stop that anyone can use is the one at the best approximate leave-one-out log score on the
labeled rows; the original code's methods have none."""

HOW_TO_READ = f"""\
- Intervals are {LEVEL:.0%} t intervals over repetitions, of differences paired by repetition, in percentage
  points but for log scores; bold ones exclude 0. Printed intervals are not corrected for their number, unless they are called
  widened: of twenty such intervals about one excludes 0 where no method differs. Where one comparison of several settles a
  verdict, and for the winners' words, intervals are wider, corrected within a claim or a table; nothing is corrected for the
  number of claims and measures.
- Repetitions on one real table share rows, and those of a simulation one population with one vector of coefficients:
  intervals speak of splits of that table, not of new data, and of these settings, not of all that there are. Differences over
  several settings weigh each setting alike. Settings on the same rows (other priors, shares or bases) share their splits, and
  are averaged in every repetition that all of them have; the others are taken as independent, and their variances add up
  (degrees of freedom after Satterthwaite).
- Settings with fewer than {FEWEST} repetitions yet are in the flat table alone. In tables by setting, a number in brackets is
  that of the repetitions in which a method was run, where it is less than R: Laplace's PPP and the methods by `glm` were run in
  the first repetitions only. Compare these in the columns of differences, which are on the same splits.
- Where two methods differ in few repetitions, a t interval is no more than a hint. Printed ends are rounded.
- "Hard" settings, of H1a, have fewer labels than parameters and a supervised accuracy below {POOR:g}%; "easy" ones, of H1b,
  more labels than parameters and {GOOD:g}% or more. What lies between speaks for neither. The accuracies that decide this are
  those found here.
- In the figures, bands are {LEVEL:.0%} intervals at each number of pseudo-labels by itself; simulated settings are judged on
  fresh rows, data sets on test rows; axes of differences end at 15 points.
- All means are in `paper.csv` beside this report, and differences to the supervised model, random selection and the probability
  score of the same kind of model, with their intervals; `ppp_ep` is PPP as in this report, `ppp` that by Laplace's method, and
  `original` and `glm_…` are the original code's methods."""
