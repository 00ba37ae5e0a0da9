"""The paper's hypotheses as claims on paired comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from validation.paper.settings import (
    EP,
    GAM,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_VARIANCE,
    INFORMATIVE,
    LIKELIHOOD,
    ORIGINAL,
    PROBABILITY,
    RANDOM,
    TABLE_1,
    TRADITIONAL,
    VARIANCE,
)
from validation.paper.summary import ALONG, FINAL, ORACLE, SUPERVISED, Summary, of
from validation.paper.verdicts import Comparison, Judge, Verdict, all_above, all_small, compare, some_above

POOR, GOOD = 75.0, 85.0
RIVALS = (LIKELIHOOD, VARIANCE, PROBABILITY)

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Hypothesis:
    """What the paper expects, the settings that speak to it, and the pairs of methods and the measure that it is turned into;
    `others` are shown beside it, and `parts` of the settings for themselves.
    """

    name: str
    expected: str
    where: str
    judge: Judge
    summaries: Sequence[Summary]
    pairs: Pairs
    measure: str = FINAL
    others: Pairs = ()
    parts: Mapping[str, Sequence[Summary]] = field(default_factory=dict)

    @property
    def comparisons(self) -> list[Comparison]:
        """Those that the verdict rests on."""
        return compare(self.summaries, self.pairs, self.measure)

    @property
    def verdict(self) -> Verdict:
        """What came out."""
        return self.judge(self.comparisons)

    @property
    def beside(self) -> list[Comparison]:
        """Its methods against random selection, and the others."""
        methods = dict.fromkeys(method for pair in self.pairs for method in pair if method != SUPERVISED)
        return compare(self.summaries, (*((method, RANDOM) for method in methods), *self.others), self.measure)

    @property
    def apart(self) -> dict[str, list[Comparison]]:
        """The comparisons in parts of the settings."""
        return {name: compare(held, self.pairs, self.measure) for name, held in self.parts.items()}

    def by(self, method: str, measure: str, *needed: str) -> Verdict | None:
        """The verdict by another approximation of PPP and another measure, over the settings that have all that is needed."""
        held = [each for each in self.summaries if each.has(method, *needed)]
        pairs = tuple((method if first == EP else first, method if second == EP else second) for first, second in self.pairs)
        found = replace(self, summaries=held, pairs=pairs, measure=measure)
        return found.verdict if found.comparisons else None


def hard(each: Summary) -> bool:
    """Fewer labels than parameters, and a poor supervised model."""
    return each.labels_a_parameter < 1 and each.mean(SUPERVISED) < POOR


def easy(each: Summary) -> bool:
    """As many labels as parameters or more, and a good supervised model."""
    return each.labels_a_parameter >= 1 and each.mean(SUPERVISED) >= GOOD


def hypotheses(summaries: Mapping[str, Summary], main: Sequence[Summary]) -> list[Hypothesis]:
    """All of them; `main` are the settings of Table 1, of the grid and of the data sets."""
    truth = [each for each in of(summaries, (*INFORMATIVE, *GAM)) if each.setting.prior.centre == "truth"]
    sds = {each.setting.prior.sd for each in truth}
    over_rivals = tuple((EP, rival) for rival in RIVALS)
    return [
        Hypothesis(
            "H1a",
            "With many features for the labels and a poor initial model, PPP with an uninformative prior beats traditional "
            "selection.",
            f"fewer labels than parameters, supervised accuracy below {POOR:g}%",
            all_above,
            [each for each in main if hard(each)],
            over_rivals,
        ),
        Hypothesis(
            "H1b",
            "With few features for the labels and a good initial model, PPP is beaten by traditional selection.",
            f"at least as many labels as parameters, supervised accuracy of {GOOD:g}% or more",
            some_above,
            [each for each in main if easy(each)],
            tuple((rival, EP) for rival in RIVALS),
        ),
        Hypothesis(
            "H2a",
            "Selection by the likelihood (max-max), which confirms the initial model most, hardly improves on it.",
            "all settings of the main tables with the likelihood; what is beside it says whether it holds of other methods too",
            all_small,
            main,
            ((LIKELIHOOD, SUPERVISED),),
            others=((LIKELIHOOD, EP), *((method, SUPERVISED) for method in (EP, *TRADITIONAL))),
        ),
        Hypothesis(
            "H2b",
            "PPP improves more along the run than likelihood, predictive variance and probability score.",
            "all settings of the main tables",
            all_above,
            main,
            over_rivals,
            measure=ALONG,
        ),
        Hypothesis(
            "H3",
            "With an informative prior PPP beats traditional selection whatever the data.",
            "GLM and GAM with priors around the data-generating coefficients, which all methods have; without the likelihood",
            all_above,
            truth,
            ((EP, VARIANCE), (EP, PROBABILITY)),
            parts={f"Of these, sd {sd:g}": [each for each in truth if each.setting.prior.sd == sd] for sd in sorted(sds)},
        ),
        Hypothesis(
            "Table 1",
            "With 60 features and n = 60, PPP has the best accuracy of all methods.",
            "the authors' design; by the oracle's stop, as in the paper",
            all_above,
            of(summaries, TABLE_1[:1]),
            over_rivals,
            measure=ORACLE,
            others=tuple((ORIGINAL, rival) for rival in (GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY)),
        ),
    ]
