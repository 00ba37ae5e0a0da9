"""The paper's hypotheses as claims on paired comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from validation.paper.settings import (
    EP,
    GLM_LIKELIHOOD,
    GLM_PROBABILITY,
    GLM_RANDOM,
    GLM_SUPERVISED,
    GLM_VARIANCE,
    LIKELIHOOD,
    NONE,
    ORIGINAL,
    PROBABILITY,
    RANDOM,
    REAL,
    SUPERVISED,
    TABLE_1,
    TRADITIONAL,
    TRUTH,
    VARIANCE,
)
from validation.paper.summary import (
    ALIKE,
    ALONG,
    DIVERGENCE,
    FINAL,
    MOVED,
    ORACLE,
    Summary,
    joined,
    of,
    with_predictions,
)
from validation.paper.verdicts import MARGIN, Comparison, Judge, Verdict, all_above, all_small, compare, nearest, some_above

POOR, GOOD = 75.0, 85.0
#: Features of the two parts of H2a's settings.
MANY = 20
RIVALS = (LIKELIHOOD, VARIANCE, PROBABILITY)
#: The same without a prior.
RIVALS_BY_GLM = (GLM_LIKELIHOOD, GLM_VARIANCE, GLM_PROBABILITY)
SAME = {measure: measure for measure in (FINAL, ALONG, ORACLE)}
#: What the paper says of its data sets: which methods are ahead of the others there, or head to head; abalone is apart.
AHEAD = {"eeg": EP, "sonar": EP, "cars": EP, "banknote": PROBABILITY, "breast_cancer": PROBABILITY}
HEAD_TO_HEAD = ("mushrooms", "ionosphere")

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Hypothesis:
    """What the paper expects, the settings that speak to it, and the pairs of methods and the measure that it is turned into;
    `others` are shown beside it, and `parts` of the settings for themselves. `measures` are what is compared at the end of a
    run, along it and by the oracle; `by_oracle` are the pairs there, where others would say nothing.
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
    measures: Mapping[str, str] = field(default_factory=lambda: SAME)
    by_oracle: Pairs = ()

    @property
    def compared(self) -> str:
        """What is compared."""
        return self.measures[self.measure]

    @property
    def comparisons(self) -> list[Comparison]:
        """Those that the verdict rests on."""
        return compare(self.summaries, self._asked, self.compared)

    @property
    def _asked(self) -> Pairs:
        return self.by_oracle if self.measure == ORACLE and self.by_oracle else self.pairs

    @property
    def verdict(self) -> Verdict:
        """What came out."""
        return self.judge(self.comparisons)

    @property
    def beside(self) -> list[Comparison]:
        """Its methods against random selection, and the others."""
        methods = dict.fromkeys(method for pair in self._asked for method in pair)
        asked = [(method, RANDOM) for method in methods if method not in (SUPERVISED, RANDOM, *RIVALS_BY_GLM)]
        return compare(self.summaries, [each for each in (*asked, *self.others) if each not in self._asked], self.compared)

    @property
    def apart(self) -> dict[str, list[Comparison]]:
        """The comparisons in parts of the settings."""
        return {name: compare(held, self._asked, self.compared) for name, held in self.parts.items()}

    @property
    def by_part(self) -> dict[str, Verdict]:
        """The verdict of each part of the settings alone."""
        return {name: self.judge(held) for name, held in self.apart.items() if held}

    def by(self, method: str, measure: str, *needed: str) -> Verdict | None:
        """The verdict by another approximation of PPP and another measure, over settings and repetitions with all that is
        needed.
        """
        held = [each.with_runs(*needed) for each in self.summaries if each.has(method, *needed)]

        def with_method(pairs: Pairs) -> Pairs:
            return tuple((method if first == EP else first, method if second == EP else second) for first, second in pairs)

        pairs, by_oracle = with_method(self.pairs), with_method(self.by_oracle)
        found = replace(self, summaries=held, pairs=pairs, by_oracle=by_oracle, measure=measure)
        return found.verdict if found.comparisons else None


def hard(each: Summary) -> bool:
    """Fewer labels than parameters, and a poor supervised model."""
    return each.labels_a_parameter < 1 and each.mean(SUPERVISED) < POOR


def easy(each: Summary) -> bool:
    """More labels than parameters, and a good supervised model."""
    return each.labels_a_parameter > 1 and each.mean(SUPERVISED) >= GOOD


def hypotheses(summaries: Mapping[str, Summary], main: Sequence[Summary]) -> list[Hypothesis]:
    """All of them; `main` are the settings of Table 1, of the supplement, of the grid and of the data sets."""
    return [*_overfitting(main), *_reinforcing(main), *_informed(summaries), *_by_table(summaries)]


def _over(method: str, *rivals: str) -> Pairs:
    return tuple((method, rival) for rival in rivals)


def _overfitting(main: Sequence[Summary]) -> list[Hypothesis]:
    return [
        Hypothesis(
            "H1a",
            "With many features for the labels and a poor initial model, PPP with an uninformative prior beats traditional "
            "selection.",
            f"fewer labels than parameters, supervised accuracy below {POOR:g}%",
            all_above,
            [each for each in main if hard(each)],
            _over(EP, *RIVALS),
        ),
        Hypothesis(
            "H1b",
            "With few features for the labels and a good initial model, PPP is beaten by traditional selection.",
            f"more labels than parameters, supervised accuracy of {GOOD:g}% or more",
            some_above,
            few := [each for each in main if easy(each)],
            tuple((rival, EP) for rival in RIVALS),
            others=((EP, SUPERVISED),),
            parts={each.setting.title: [each] for each in few},
        ),
    ]


def _reinforcing(main: Sequence[Summary]) -> list[Hypothesis]:
    measured = [each for each in main if each.has(LIKELIHOOD)]
    held = with_predictions(measured)
    every = "all settings of the main tables with the likelihood"
    some = (
        f"{len(held)} of the {len(measured)} settings of the main tables with the likelihood, in the repetitions whose "
        "predictions were stored"
    )
    nearness = {
        "accuracy": (MOVED, "by the distance of its accuracy curve from the supervised model's", every, measured),
        "classes": (ALIKE, "by the share of rows that both predict alike", some, held),
        "KL": (DIVERGENCE, "by KL(supervised ‖ model) of class probabilities, in hundredths of a nat", some, held),
    }
    return [
        *(
            Hypothesis(
                f"H2a ({name})",
                f"Of all methods, selection by the likelihood (max-max) stays nearest to the supervised model: {how}.",
                where,
                nearest,
                settings,
                _over(LIKELIHOOD, EP, VARIANCE, PROBABILITY),
                measure=ALONG,
                parts={
                    f"{MANY} features or more": [each for each in settings if each.features >= MANY],
                    f"fewer than {MANY} features": [each for each in settings if each.features < MANY],
                },
                measures=measures,
            )
            for name, (measures, how, where, settings) in nearness.items()
        ),
        Hypothesis(
            "H2b",
            "Selection by the likelihood (max-max) hardly improves on the supervised model.",
            "all settings of the main tables with the likelihood; what is beside it says whether it holds of other methods too",
            all_small,
            main,
            ((LIKELIHOOD, SUPERVISED),),
            others=((LIKELIHOOD, EP), *((method, SUPERVISED) for method in (EP, *TRADITIONAL))),
            by_oracle=((LIKELIHOOD, RANDOM),),
        ),
    ]


def without_prior(summaries: Mapping[str, Summary]) -> list[Summary]:
    """Settings with a prior around the truth, beside the models without a prior on the same splits."""
    others = [summaries.get(replace(each.setting, prior=NONE).key) for each in of(summaries, TRUTH)]
    both = [joined(each, other) for each, other in zip(of(summaries, TRUTH), others, strict=True) if other is not None]
    return [each for each in both if each.repetitions > 1]


def _informed(summaries: Mapping[str, Summary]) -> list[Hypothesis]:
    truth = of(summaries, TRUTH)
    where = (
        "a GLM and GAMs with priors around the data-generating coefficients, of three standard deviations each, shares of 0.8 "
        "and 0.9 unlabeled"
    )
    return [
        Hypothesis(
            "H3 (rivals without the prior)",
            "PPP with an informative prior beats traditional selection by models without a prior, whatever the data.",
            f"{where}; the rivals by `glm` on the same columns",
            all_above,
            held := without_prior(summaries),
            _over(EP, *RIVALS_BY_GLM),
            others=((SUPERVISED, GLM_SUPERVISED), (EP, SUPERVISED), *((SUPERVISED, rival) for rival in RIVALS_BY_GLM)),
            parts=_parts(held),
        ),
        Hypothesis(
            "H3 (rivals with the same prior)",
            "PPP with an informative prior beats traditional selection by models with the same prior, whatever the data.",
            f"{where}; every method has the prior, the likelihood was run at a share of 0.9 alone",
            all_above,
            truth,
            _over(EP, *RIVALS),
            others=((EP, SUPERVISED),),
            parts=_parts(truth),
        ),
    ]


def _parts(held: Sequence[Summary]) -> dict[str, list[Summary]]:
    """By share of unlabeled rows, and by the prior's standard deviation."""
    shares, sds = (sorted({value(each) for each in held}) for value in (_share, _sd))
    return {
        **{f"{share:.0%} unlabeled": [each for each in held if _share(each) == share] for share in shares},
        **{f"sd {sd:g}": [each for each in held if _sd(each) == sd] for sd in sds},
    }


def _share(each: Summary) -> float:
    return each.setting.unlabeled


def _sd(each: Summary) -> float:
    return each.setting.prior.sd


def _by_table(summaries: Mapping[str, Summary]) -> list[Hypothesis]:
    table_1 = Hypothesis(
        "Table 1",
        "With 60 features and n = 60, PPP has the best accuracy of all methods.",
        "the authors' design; by the oracle's stop, as in the paper",
        all_above,
        of(summaries, TABLE_1[:1]),
        _over(EP, *RIVALS),
        measure=ORACLE,
        others=_over(ORIGINAL, GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY),
    )
    return [table_1, *(found for source in (*AHEAD, *HEAD_TO_HEAD, "abalone") if (found := _of_data(source, summaries)))]


def _of_data(source: str, summaries: Mapping[str, Summary]) -> Hypothesis | None:
    """What the paper says of a data set."""
    held = [each for each in of(summaries, REAL) if each.setting.source == source]
    if not held:
        return None
    name = held[0].setting.name
    pairs: Pairs
    beyond_random: Pairs = ()
    others: Pairs = ()
    if source in HEAD_TO_HEAD:
        pairs, judge = ((EP, PROBABILITY), (PROBABILITY, EP)), all_small
        expected = f"PPP and the probability score are head to head, within {MARGIN:g} point of each other,"
    elif source in AHEAD:
        best = AHEAD[source]
        pairs, judge = _over(best, *(method for method in (EP, *RIVALS) if method != best)), all_above
        expected = f"{'PPP' if best == EP else 'The probability score'} is ahead of the other methods"
    else:
        others = tuple((method, SUPERVISED) for method in (EP, *TRADITIONAL, LIKELIHOOD))
        pairs, judge, expected = tuple((method, SUPERVISED) for method in (EP, *RIVALS)), all_small, "No method gains"
        beyond_random = tuple((method, RANDOM) for method, _ in pairs)
    return Hypothesis(
        name,
        f"{expected} on {name}.",
        "the paper's share of 0.8 unlabeled",
        judge,
        held,
        pairs,
        measure=ORACLE,
        others=others,
        by_oracle=beyond_random,
    )
