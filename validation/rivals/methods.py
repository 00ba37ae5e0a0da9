"""The rivals: each takes a split and gives class probabilities of its test rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import pymc_bpls as bpls
from pymc_bpls.choosing.bound import FEWEST as LABELS_OF_A_BOUND
from validation.rivals.measures import SECONDS, measure
from validation.rivals.settings import MOST_FEATURES, Setting
from validation.rivals.splits import Drawn, draw_split
from validation.study.store import Record

SUPERVISED, PPP, NO_GAIN = "supervised", "ppp", "ppp_no_gain"
CONDITIONAL, LITTLE, WHOLE = "class_conditional", "integrated_0.1", "integrated_1"
SELF_TRAINING, SPREADING, CHOICE = "self_training_classifier", "label_spreading", "choose"
REGRESSION, NEIGHBOURS = "logistic_regression", "label_spreading_alone"
PRIOR_SD = 2.5
WEIGHTS = {LITTLE: 0.1, WHOLE: 1.0}
#: A weight at which the pool says nothing.
NOTHING = 1e-9
AT_ONCE, FOLDS = 5, 5
#: Of a row in label spreading, itself among them.
NEAREST = 7


class NoPredictionError(ValueError):
    """A method gives a test row no class probabilities."""


class Models:
    """The models of a split, each declared when it is first asked for; `predictor` labels rows and is what is chosen by."""

    def __init__(self, drawn: Drawn, seed: int, predictor: str = "map") -> None:
        self.drawn, self.seed, self.predictor = drawn, seed, predictor

    @cached_property
    def logistic(self) -> bpls.BPLS:
        """Coefficients Normal(0, 2.5²) and an intercept of the same prior."""
        X = self.drawn.X
        with pm.Model() as model:
            intercept = pm.Normal("intercept", 0, PRIOR_SD)
            slopes = pm.Normal("slopes", 0, PRIOR_SD, shape=X.shape[1])
            pm.Bernoulli("label", logit_p=intercept + X @ slopes, observed=self.drawn.known)
        return bpls.BPLS(model, unlabeled=self.drawn.candidates, predictor=self.predictor)

    @cached_property
    def conditional(self) -> bpls.BPLS:
        """Independent normal features within a class, each with a mean and a scale of its own."""
        X = self.drawn.X
        with pm.Model() as model:
            share = pm.Beta("share", 2, 2)
            mean = pm.Normal("mean", 0, 2, shape=(2, X.shape[1]))
            scale = pm.LogNormal("scale", 0, 0.5, shape=(2, X.shape[1]))
            label = pm.Bernoulli("label", share * np.ones(len(X)), observed=self.drawn.known)
            pm.Normal("features", mean[label], scale[label], observed=X)
        return bpls.BPLS(model, target="label", unlabeled=self.drawn.candidates, predictor=self.predictor)


def _predict(pls: bpls.BPLS, drawn: Drawn, result: Any) -> np.ndarray:
    by = None if "weight" in result.attrs else "gaussian"
    return pls.predict_proba(drawn.test, result=result, by=by).to_numpy()


def _supervised(models: Models) -> np.ndarray:
    """By a run of no rounds, so that its Gaussian is of the approximation by which runs predict."""
    return _predict(models.logistic, models.drawn, models.logistic.self_train("ppp", rounds=0, progressbar=False))


def _to_the_end(models: Models) -> np.ndarray:
    return _predict(models.logistic, models.drawn, models.logistic.self_train("ppp", progressbar=False))


def _no_gain(models: Models) -> np.ndarray:
    """As many rounds as labeled rows that were set aside call for, then with all labels."""
    pls = models.logistic
    run = pls.self_train("ppp", stop=bpls.NoGain(), random_seed=models.seed, progressbar=False)
    rounds = int(run["curve"]["held_out_log_score"].to_numpy().argmax())
    return _predict(pls, models.drawn, pls.self_train("ppp", rounds=rounds, progressbar=False))


def _integrated(weight: float) -> Callable[[Models], np.ndarray]:
    def predict(models: Models) -> np.ndarray:
        return _predict(models.conditional, models.drawn, models.conditional.marginalize(weight, progressbar=False))

    return predict


def _choose(models: Models) -> np.ndarray:
    """What labeled rows prove better than the supervised model, of PPP to the end and labels integrated out."""
    pipelines: dict[str, Any] = {PPP: bpls.Train("ppp", batch_size=AT_ONCE)}
    if models.drawn.X.shape[1] <= MOST_FEATURES:
        pipelines[WHOLE] = bpls.Marginalize(1.0, scorer=models.conditional)
    choice = models.logistic.choose(pipelines, folds=FOLDS, repeats=1, random_seed=models.seed, progressbar=False)
    return _predict(models.conditional if choice.name == WHOLE else models.logistic, models.drawn, choice.result)


def _by_sklearn(make: Callable[[Drawn], Any], alone: bool = False) -> Callable[[Models], np.ndarray]:
    """On all training rows, or on the labeled ones alone."""

    def predict(models: Models) -> np.ndarray:
        drawn = models.drawn
        train = drawn.labeled if alone else np.concatenate([drawn.labeled, drawn.candidates])
        with np.errstate(invalid="ignore"):  # LabelSpreading divides 0 by 0 where no label reaches a row's neighbours
            p = np.asarray(make(drawn).fit(drawn.X[train], drawn.known[train]).predict_proba(drawn.X[drawn.test]))
        if not np.isfinite(p).all():
            raise NoPredictionError("no label reaches some test rows")
        return p

    return predict


def _regression(_: Drawn) -> LogisticRegression:
    """With the penalty that is the prior of the slopes; the intercept has none."""
    return LogisticRegression(C=PRIOR_SD**2, max_iter=1000)


def _spreading(neighbours: int) -> LabelSpreading:
    return LabelSpreading(kernel="knn", n_neighbors=neighbours, max_iter=200)


LOGISTIC: dict[str, Callable[[Models], np.ndarray]] = {
    PPP: _to_the_end,
    NO_GAIN: _no_gain,
    SELF_TRAINING: _by_sklearn(lambda drawn: SelfTrainingClassifier(_regression(drawn))),
    SPREADING: _by_sklearn(lambda _: _spreading(NEAREST)),
}
OF_CLASSES = {name: _integrated(weight) for name, weight in WEIGHTS.items()}
#: Models on the labels alone.
ALONE: dict[str, Callable[[Models], np.ndarray]] = {
    SUPERVISED: _supervised,
    REGRESSION: _by_sklearn(_regression, alone=True),
    NEIGHBOURS: _by_sklearn(lambda drawn: _spreading(min(NEAREST, len(drawn.labeled))), alone=True),
}
#: By weighted draws, as with the pool.
CONDITIONAL_ALONE: dict[str, Callable[[Models], np.ndarray]] = {CONDITIONAL: _integrated(NOTHING)}
#: Tries both in every fold, which takes the time of many runs, so that it is stored apart.
CHOOSING: dict[str, Callable[[Models], np.ndarray]] = {CHOICE: _choose}


def rivals_of(setting: Setting) -> dict[str, Callable[[Models], np.ndarray]]:
    """Those that are run on a setting."""
    return LOGISTIC | OF_CLASSES if setting.class_conditional else LOGISTIC


def could_choose(setting: Setting) -> bool:
    """Whether `choose` can leave the supervised model, which it keeps by rule where labels are fewer than a bound needs."""
    return setting.sizes.labeled >= LABELS_OF_A_BOUND


def repeat(setting: Setting, repetition: int) -> Record:
    """What is stored of one repetition: the measures of the package's and scikit-learn's methods, and processor seconds."""
    return measure_each(rivals_of(setting), draw_split(setting, repetition), repetition)


def alone(setting: Setting, repetition: int) -> Record:
    """The same of the models on the labels alone, each by the approximation of what it is compared with."""
    models = ALONE | CONDITIONAL_ALONE if setting.class_conditional else ALONE
    return measure_each(models, draw_split(setting, repetition), repetition)


def choose(setting: Setting, repetition: int) -> Record:
    """The same of the choice among them, which averages over the posterior where it judges, as its predictions are judged."""
    return measure_each(CHOOSING, draw_split(setting, repetition), repetition, predictor="auto")


def measure_each(
    rivals: Mapping[str, Callable[[Models], np.ndarray]], drawn: Drawn, repetition: int, predictor: str = "map"
) -> Record:
    """The same of some rivals; one that is refused or predicts no class on a split is not in it."""
    models, record = Models(drawn, repetition, predictor), {}
    for name, predict in rivals.items():
        start = time.process_time()
        try:
            p = predict(models)
        except (bpls.BPLSError, NoPredictionError):
            continue
        record[name] = rounded(measure(p, drawn.y[drawn.test]) | {SECONDS: time.process_time() - start})
    return record


def rounded(values: dict[str, float]) -> dict[str, float]:
    """As they are stored."""
    return {name: round(value, 4) for name, value in values.items()}
