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

#: Methods by their names here; how each is computed is in `methods` and `original`.
EP, PPP, IBPLS, MARGINAL, LIKELIHOOD = "ppp_ep", "ppp", "ibpls", "marginal_likelihood", "likelihood"
VARIANCE, PROBABILITY, RANDOM = "variance", "probability", "random"
UBPLS, REFERENCE = "ubpls", "reference"
ORIGINAL, GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY = "original", "glm_random", "glm_variance", "glm_probability"
FEW = (EP, PROBABILITY, RANDOM)
TRADITIONAL = (VARIANCE, PROBABILITY, RANDOM)
LAPLACE = (PPP, IBPLS, MARGINAL, LIKELIHOOD)
BAYESIAN = (EP, PPP, LIKELIHOOD, *TRADITIONAL)
INFORMED = (EP, *TRADITIONAL)
GLM = (ORIGINAL, GLM_RANDOM, GLM_VARIANCE, GLM_PROBABILITY)
ALL = (EP, *LAPLACE, *TRADITIONAL, *GLM)
FLAT = (UBPLS, REFERENCE)
LARGE = (EP, LIKELIHOOD, *TRADITIONAL, *GLM)
MOST_METHODS = (*BAYESIAN, *GLM)


@dataclass(frozen=True)
class Prior:
    """Coefficients are normal around `centre`, with this standard deviation where features are standardised."""

    centre: str = "zero"
    sd: float = 2.5


WEAK = Prior()


@dataclass(frozen=True)
class Setting:
    """`n` rows of a table, drawn anew in every repetition; `features` are those of a simulation."""

    source: str
    n: int
    features: int | None = None
    unlabeled: float = 0.8
    prior: Prior = WEAK
    basis: str = LINEAR
    methods: tuple[str, ...] = FEW
    repetitions: int = LEAST

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
#: Twenty pairs of rows and features, all of which act.
GRID = tuple(
    Setting(SUPPLEMENT, n, q, methods=BAYESIAN if n <= 100 else FEW, repetitions=MORE if q == 60 and n <= 100 else LEAST)
    for q in (4, 10, 20, 40, 60)
    for n in (40, 60, 100, 200)
)
REAL = (
    Setting("sonar", 208, methods=MOST_METHODS),
    Setting("ionosphere", 350, methods=MOST_METHODS),
    Setting("banknote", 200, methods=ALL),
    Setting("cars", 32, methods=ALL, repetitions=MOST),
    Setting("abalone", 200, methods=(*MOST_METHODS, *FLAT)),
    Setting("eeg", 182, methods=MOST_METHODS),
    Setting("mushrooms", 200, methods=(*MOST_METHODS, *FLAT)),
    Setting("breast_cancer", 200, methods=MOST_METHODS),
    Setting("breast_cancer", 400, methods=LARGE),
)
SHARE = tuple(replace(each, unlabeled=0.9, methods=FEW, repetitions=LEAST) for each in (*TABLE_1[:2], *REAL) if each.n > 32)
STRENGTHS = (0.5, 1.0, 10.0)
STRENGTH = tuple(Setting(SUPPLEMENT, n, 20, prior=Prior(sd=sd)) for sd in STRENGTHS for n in (40, 60, 100, 200))
PRIORS = (
    Prior("truth", 0.1),
    Prior("truth", 0.5),
    Prior("truth", 2.5),
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


def _one_each(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """Every key once: with the methods of the first setting that has it, and the repetitions of the one with the most."""
    first: dict[str, Setting] = {}
    for each in settings:
        held = first.setdefault(each.key, each)
        first[each.key] = replace(held, repetitions=max(held.repetitions, each.repetitions))
    return tuple(first.values())


SETTINGS = _one_each((*TABLE_1, *REAL, *GRID, *INFORMATIVE, *GAM, *STRENGTH, *SHARE))
QUICK = tuple(replace(each, repetitions=2) for each in (REAL[3], GRID[0], GAM[1]))
