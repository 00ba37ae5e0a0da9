"""The settings of the study: tables, numbers of rows, shares of them unlabeled, priors, and the methods that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from validation.study.splits import Sizes

CODE, SUPPLEMENT, CURVED = "code", "supplement", "curved"
#: Columns of the data sets.
FEATURES = {
    "sonar": 60,
    "ionosphere": 33,
    "banknote": 6,
    "cars": 2,
    "abalone": 6,
    "eeg": 12,
    "mushrooms": 3,
    "breast_cancer": 30,
}
LINEAR, SPLINE = "linear", "spline"
LEAST, SOME, MORE, MOST = 15, 20, 40, 100
#: At how many numbers of pseudo-labels a curve is kept, of settings that are drawn and of the others.
DRAWN, ENDS = 21, 2

#: Methods by their names here; how each is computed is in `methods` and `original`.
EP, PPP, IBPLS, MARGINAL, LIKELIHOOD = "ppp_ep", "ppp", "ibpls", "marginal_likelihood", "likelihood"
VARIANCE, PROBABILITY, RANDOM = "variance", "probability", "random"
UBPLS, REFERENCE = "ubpls", "reference"
SUPERVISED, GLM_SUPERVISED = "supervised", "glm_supervised"
ORIGINAL, GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY = "original", "glm_random", "glm_variance", "glm_probability"
GLM_LIKELIHOOD = "glm_likelihood"
FEW = (EP, PROBABILITY, RANDOM)
TRADITIONAL = (VARIANCE, PROBABILITY, RANDOM)
LAPLACE = (PPP, IBPLS, MARGINAL, LIKELIHOOD)
BAYESIAN = (EP, PPP, LIKELIHOOD, *TRADITIONAL)
INFORMED = (EP, *TRADITIONAL)
#: PPP, the paper's traditional methods, and random selection.
CORE = (EP, LIKELIHOOD, *TRADITIONAL)
#: Without a prior, as R fits.
WITHOUT_PRIOR = (GLM_LIKELIHOOD, GLM_VARIANCE, GLM_PROBABILITY, GLM_RANDOM)
GLM = (ORIGINAL, GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY)
BY_GLM = frozenset((*GLM, *WITHOUT_PRIOR))
ALL = (EP, *LAPLACE, *TRADITIONAL, *GLM)
FLAT = (UBPLS, REFERENCE)
LARGE = (*CORE, *GLM)
MOST_METHODS = (*BAYESIAN, *GLM)


@dataclass(frozen=True)
class Prior:
    """Coefficients are normal around `centre`, with this standard deviation where features are standardised; or free."""

    centre: str = "zero"
    sd: float = 2.5


WEAK, NONE = Prior(), Prior("none", float("inf"))


@dataclass(frozen=True)
class Setting:
    """`n` rows of a table, drawn anew in every repetition; `features` are those of a simulation.

    So many `further` repetitions have only the methods of `CORE`. Curves are kept at `points` numbers of pseudo-labels.
    """

    source: str
    n: int
    features: int | None = None
    unlabeled: float = 0.8
    prior: Prior = WEAK
    basis: str = LINEAR
    methods: tuple[str, ...] = FEW
    repetitions: int = LEAST
    further: int = 0
    points: int = DRAWN

    @property
    def wanted(self) -> int:
        """How many repetitions the study aims at."""
        return self.repetitions + self.further

    def methods_of(self, repetition: int) -> tuple[str, ...]:
        """Those that are run in a repetition."""
        return self.methods if repetition < self.repetitions else tuple(name for name in self.methods if name in CORE)

    @property
    def sizes(self) -> Sizes:
        """How many rows are for testing, labeled and candidates."""
        return Sizes.of(self.n, self.unlabeled)

    @property
    def key(self) -> str:
        """Names its file of results."""
        features = "" if self.features is None else f"-q{self.features}"
        basis = "" if self.basis == LINEAR else f"-{self.basis}"
        return f"{self.source}{features}{basis}-n{self.n}-u{100 * self.unlabeled:.0f}-{self.prior.centre}-sd{self.prior.sd:g}"

    @property
    def name(self) -> str:
        """Names its table to a reader."""
        names = {"eeg": "EEG", "breast_cancer": "breast cancer", CURVED: "curved effects"}
        features = "" if self.features is None else f", q = {self.features}"
        return names.get(self.source, self.source) + features + (" (GAM)" if self.basis == SPLINE else "")

    @property
    def title(self) -> str:
        """Names it to a reader, up to its prior."""
        share = "" if self.unlabeled == 0.8 else f", {self.unlabeled:.0%} unlabeled"
        return f"{self.name}, n = {self.n}{share}"

    @property
    def work(self) -> int:
        """What the time of a repetition is roughly proportional to."""
        return self.sizes.candidates * len(self.methods)


#: Table 1: the numbers of rows in the authors' script with 60 features; theirs is the design "code".
TABLE_1 = (
    Setting(CODE, 60, 60, methods=ALL, repetitions=MOST),
    Setting(CODE, 100, 60, methods=ALL, repetitions=MOST),
    Setting(CODE, 400, 60, methods=LARGE, repetitions=MOST),
    Setting(CODE, 1000, 60, methods=LARGE),
)
#: The supplement's (n, q), with the methods that the paper found best: by the oracle's stop, and with all pseudo-labels.
WINNERS: dict[tuple[int, int], tuple[tuple[str, ...], tuple[str, ...]]] = {
    (60, 60): ((EP,), (EP,)),
    (100, 60): ((EP,), (SUPERVISED,)),
    (400, 60): ((EP,), (EP,)),
    (1000, 60): ((PROBABILITY,), (PROBABILITY,)),
    (300, 30): ((PROBABILITY,), (PROBABILITY,)),
    (300, 20): ((EP,), (EP,)),
    (300, 15): ((EP,), (EP,)),
    (300, 10): ((EP, PROBABILITY), (EP, PROBABILITY)),
    (400, 30): ((PROBABILITY,), (EP, PROBABILITY)),
    (400, 20): ((PROBABILITY,), (PROBABILITY,)),
    (400, 15): ((EP, PROBABILITY), (PROBABILITY,)),
    (400, 10): ((EP, PROBABILITY), (EP, PROBABILITY)),
    (800, 30): ((EP,), (EP,)),
    (800, 20): ((EP, PROBABILITY), (EP, PROBABILITY)),
    (800, 15): ((EP,), (EP,)),
    (800, 10): ((EP,), (EP, PROBABILITY)),
    (1000, 30): ((EP,), (EP, PROBABILITY)),
    (1000, 20): ((EP,), (EP,)),
    (1000, 15): ((EP,), (EP,)),
    (1000, 10): ((VARIANCE,), (VARIANCE,)),
}
#: Fewer rows than the supplement has: pairs of rows and features, all of which act.
GRID = tuple(
    Setting(SUPPLEMENT, n, q, methods=BAYESIAN if n <= 100 else FEW, repetitions=MORE if q == 60 and n <= 100 else LEAST)
    for q in (4, 10, 20, 40, 60)
    for n in (40, 60, 100, 200)
    if (n, q) not in WINNERS
)
#: Two of the supplement's settings were in the grid at first, with PPP by Laplace's method.
SMALLEST = tuple(Setting(SUPPLEMENT, n, 60, methods=BAYESIAN, repetitions=MORE, further=MOST - MORE) for n in (60, 100))
TWENTY = (
    *SMALLEST,
    *(
        Setting(SUPPLEMENT, n, q, methods=CORE, repetitions=MOST if n <= 400 else LEAST, points=ENDS)
        for n, q in WINNERS
        if (n, q) not in {(each.n, each.features) for each in SMALLEST}
    ),
)
REAL = (
    Setting("sonar", 208, methods=MOST_METHODS, further=MOST - LEAST),
    Setting("ionosphere", 350, methods=MOST_METHODS, further=MOST - LEAST),
    Setting("banknote", 200, methods=ALL, further=MOST - LEAST),
    Setting("cars", 32, methods=ALL, repetitions=MOST),
    Setting("abalone", 200, methods=(*MOST_METHODS, *FLAT), further=MOST - LEAST),
    Setting("eeg", 182, methods=MOST_METHODS, further=MOST - LEAST),
    Setting("mushrooms", 200, methods=(*MOST_METHODS, *FLAT), further=MOST - LEAST),
    Setting("breast_cancer", 200, methods=MOST_METHODS, further=MOST - LEAST),
    Setting("breast_cancer", 400, methods=LARGE, further=MOST - LEAST),
)
SHARE = tuple(
    replace(each, unlabeled=0.9, methods=FEW, repetitions=LEAST, further=0) for each in (*TABLE_1[:2], *REAL) if each.n > 32
)
STRENGTHS = (0.5, 1.0, 10.0)
STRENGTH = tuple(Setting(SUPPLEMENT, n, 20, prior=Prior(sd=sd)) for sd in STRENGTHS for n in (40, 60, 100, 200))
AROUND_TRUTH = (Prior("truth", 0.1), Prior("truth", 0.5), Prior("truth", 2.5))
PRIORS = (
    *AROUND_TRUTH,
    WEAK,
    Prior("zero", 0.5),
    Prior("shifted", 0.5),
    Prior("flipped", 0.5),
    Prior("flipped", 2.5),
)
INFORMATIVE = tuple(Setting(SUPPLEMENT, 100, 20, prior=prior, methods=INFORMED, repetitions=SOME) for prior in PRIORS)
GAM = (
    *(replace(each, source=CURVED, n=n, features=3, basis=SPLINE) for n in (60, 100) for each in INFORMATIVE),
    Setting("mushrooms", 200, basis=SPLINE, methods=INFORMED),
)
#: H3: priors around the truth, and on the same splits models without a prior.
_FEWER_LABELS = tuple(
    replace(each, unlabeled=0.9, methods=CORE, repetitions=MOST, points=ENDS)
    for each in (*INFORMATIVE, *GAM)
    if each.prior in AROUND_TRUTH
)
TRUTH = (
    *(replace(each, further=MOST - SOME) for each in (*INFORMATIVE, *GAM) if each.prior in AROUND_TRUTH),
    *_FEWER_LABELS,
)
NO_PRIOR = tuple(
    replace(each, prior=NONE, methods=WITHOUT_PRIOR, repetitions=MOST, further=0, points=ENDS)
    for each in TRUTH
    if each.prior == AROUND_TRUTH[0]
)


def _one_each(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Every key once: with the methods of the first setting that has it, and the repetitions of the one with the most."""
    first: dict[str, Setting] = {}
    for each in settings:
        held = first.setdefault(each.key, each)
        first[each.key] = replace(held, repetitions=max(held.repetitions, each.repetitions))
    return tuple(first.values())


SETTINGS = _one_each((*TABLE_1, *TWENTY, *REAL, *GRID, *TRUTH, *NO_PRIOR, *INFORMATIVE, *GAM, *STRENGTH, *SHARE))
QUICK = tuple(replace(each, repetitions=2) for each in (REAL[3], GRID[0], GAM[1]))
