"""scikit-learn: a classifier that self-trains a PyMC model, and cross-validation that tests on labeled rows only.

It takes the extra `pymc-bpls[sklearn]`. scikit-learn's own `cross_val_score` and `GridSearchCV` with an integer `cv` deal
unlabeled rows into the test folds, where −1 counts as the right answer: give them `cv=LabeledKFold()`, or call
`cross_validate_labeled`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
import pymc as pm
import scipy.stats
import xarray as xr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import check_scoring, log_loss
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from pymc_bpls.approximations.predictions.predictive import Predictive
from pymc_bpls.arguments import check, number, require
from pymc_bpls.bpls import BPLS
from pymc_bpls.choosing.folds import read_groups
from pymc_bpls.choosing.pipelines import SUPERVISED, beside
from pymc_bpls.compute.budget import OutOfTime, within_seconds
from pymc_bpls.errors import CriterionError, LabelError, ModelError, warn
from pymc_bpls.model.data.labels import UNLABELED, ClassCountError
from pymc_bpls.model.data.missing import nan_where_masked
from pymc_bpls.model.density import NO_ROW
from pymc_bpls.rules.label_rules import LabelRule
from pymc_bpls.scoring.criteria import Criterion
from pymc_bpls.scoring.settings import AUTO
from pymc_bpls.selftraining.run_tables import RunTables, read_tables
from pymc_bpls.selftraining.stop_rules import Stop
from pymc_bpls.selftraining.train import Train
from pymc_bpls.selftraining.whole_runs import whole_runs
from pymc_bpls.sklearn.folds import LabeledKFold, encode, read_labels, splits
from pymc_bpls.text.numbers import plus_minus
from pymc_bpls.trained.probabilities import probabilities_at
from pymc_bpls.trained.result import read_trained

BuildModel = Callable[[np.ndarray, np.ndarray], pm.Model]

_CONFIDENCE = 0.95
#: Prior standard deviation of a coefficient, and up to how many features.
_SCALE, _FEW = 2.5, 25
#: How many times as much one feature may vary as another.
_ONE_SCALE = 100
#: Seconds for what `safe="auto"` proves: a default that takes longer is mistaken for one that hangs.
_BUDGET = 60
_POSITIVE = number(lambda value: value > 0)


def coefficient_scale(n_features: int) -> float:
    """Prior standard deviation of each coefficient of standardised features: 2.5 up to 25 of them, less of more.

    The linear predictor's own is √q times as large. At 2.5 for each of thousands it is above 100: every class is certain before
    a label is seen, and a few labels leave predictions that are worse than a coin. From 25 features on the scale is
    2.5 · 25 / q, until the linear predictor's is 2.5, at 625 of them, where it stays.

    Examples
    --------
    >>> from pymc_bpls.sklearn.classifier import coefficient_scale
    >>> coefficient_scale(25), coefficient_scale(100), round(coefficient_scale(2500) * 2500**0.5, 6)
    (2.5, 0.625, 2.5)
    """
    return _SCALE * max(min(1.0, _FEW / max(n_features, 1)), max(n_features, 1) ** -0.5)


def logistic_regression(X: np.ndarray, codes: np.ndarray, scale: float | None = None) -> pm.Model:
    """Logistic regression for two classes, softmax regression for more, under normal priors.

    The intercept is Normal(0, 2.5), and so is each coefficient of up to 25 features. Of q > 25 features it is
    Normal(0, 62.5/q), and of more than 625 Normal(0, 2.5/√q), which keeps the prior standard deviation of the linear predictor
    at 2.5.

    With several classes every class has its coefficients, so that the prior treats them alike; criteria without the prior
    ("ubpls", "reference", "likelihood", `expansion="mle"`) refuse that, because the likelihood does not identify them.

    Parameters
    ----------
    X : ndarray, shape (rows, features)
        Features on one scale, as of a StandardScaler: the prior is the same for all.
    codes : ndarray of int, shape (rows,)
        0 … K − 1, and −1 where unlabeled.
    scale : float, optional
        Prior standard deviation of each coefficient instead of the above: √C has the penalty of scikit-learn's
        `LogisticRegression(C=C)`.

    Returns
    -------
    pymc.Model

    Raises
    ------
    CriterionError
        `scale` is not a positive number.

    Examples
    --------
    A grid of priors, for a search by cross-validation:

    >>> from functools import partial
    >>> from pymc_bpls.sklearn import BPLSClassifier, logistic_regression
    >>> grid = {"build_model": [partial(logistic_regression, scale=scale) for scale in (0.1, 0.5, 2.5)]}
    >>> BPLSClassifier(rounds=0).set_params(build_model=grid["build_model"][0]).build_model.keywords
    {'scale': 0.1}
    """
    if scale is None:
        scale = coefficient_scale(X.shape[1])
    require(scale, _POSITIVE, "scale={value!r} is no standard deviation. Give a positive number.")
    n_classes = int(codes.max()) + 1
    shape = () if n_classes == 2 else (n_classes,)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, _SCALE, shape=shape)
        coefficients = pm.Normal("coefficients", 0, scale, shape=(X.shape[1], *shape))
        likelihood = pm.Bernoulli if n_classes == 2 else pm.Categorical
        likelihood("label", logit_p=intercept + X @ coefficients, observed=codes)
    return model


class BPLSClassifier(ClassifierMixin, BaseEstimator):
    """Bayesian pseudo-label selection as a scikit-learn classifier.

    **The default keeps the supervised model unless labels prove the run better**: a model of y given X learns nothing from
    pseudo-labels, and often predicts worse with them. That takes the run again in each fold, up to 60 seconds in all;
    `rounds=0` is the supervised model at once.

    Parameters
    ----------
    build_model : callable, optional
        `build_model(X, codes)` returns a `pymc.Model` with one observed variable: X is an array (rows, features), `codes`
        holds 0 … K − 1, and −1 where unlabeled. It is called on the training rows, and on them and the rows to predict
        together, so that it must not compute statistics of X (standardise in a Pipeline). Pickling needs a function of a
        module. By default `logistic_regression`, whose prior is Normal(0, 2.5) for up to 25 features and narrower for more.
    criterion : str, Criterion or FitCriterion, default "ppp"
        What a candidate is scored by: "ppp", "ibpls", "ubpls", "marginal_likelihood", "reference", "likelihood", "probability",
        "variance", "predictive", "entropy", "bald" or "random", or one of your own.
    approximation : {"auto", "laplace", "ep", "vi"}, default "auto"
        Of the integrals in "ppp", "marginal_likelihood" and "predictive": Laplace's method, expectation propagation or
        variational inference. "auto" takes what suits the model; `BPLS.score` says which.
    expansion : {"map", "mle"}, default "map"
        Whether the point of expansion maximises the prior too; "mle" is the paper's, for "ppp" and "ibpls".
    labels : {"predicted", "all", "expected", "sampled"} or LabelRule, default "predicted"
        Which labels of a candidate compete: the predicted one, or as in `BPLS.score`.
    rounds : int, optional
        How many rounds of scoring and adding, 0 or more. None, the default, goes on until every row has a label or `stop` ends
        the run; 0 is the supervised model.
    batch_size : int, default 1
        How many rows a round adds. Runs over hundreds of rows or features are faster by larger ones.
    stop : callable or list of callables, optional
        Rules that end a run before its rounds are done: `NoGain()`, `EvidenceDrop()`, `Threshold(...)`, or one of your own.
    class_balance : "labeled" or mapping of class to share, optional
        Shares that are forced on the pseudo-labels and add up to 1 (0 of classes left out), or those of the labeled rows.
    pseudo_weight : float or callable, default 1
        Weight of a pseudo-labeled row beside 1 of a labeled row, above 0, or a function of the score that it was chosen by.
    safe : bool or "auto", default "auto"
        Whether `fit` uses the run only where labeled rows that are set aside prove it better than the supervised model, which
        it keeps otherwise (`BPLS.choose`); `run_.attrs["choice_verdict"]` says why. "auto" is True where neither `rounds` nor
        `stop` is given, within 60 seconds: if the proof takes longer, `fit` keeps the supervised model and warns. True has no
        such budget.
    predictor : {"auto", "map", "laplace", "ep", "vi"}, default "auto"
        How class probabilities are made, as in `BPLS`: averaged over an approximation of the posterior, or at its mode ("map").
    random_seed : int or numpy Generator, optional
        For `criterion="random"`, and the folds of `safe`.
    progressbar : bool, default False

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
        The labels, sorted, without the marker of unlabeled rows.
    run_ : xarray.DataTree
        The whole run, as `BPLS.self_train` returns it.
    transduction_ : ndarray, shape (rows,)
        y with pseudo-labels; rows that were never pseudo-labeled keep their marker.
    labeled_iter_ : ndarray of int, shape (rows,)
        The round in which a row was pseudo-labeled; 0 for labeled rows, −1 for rows that never were.
    n_iter_ : int
        How many rounds were done.
    termination_condition_ : str
        Why the run stopped.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names that are strings.

    See Also
    --------
    BPLS : any PyMC model, and everything beside prediction.
    LabeledKFold, cross_validate_labeled : splits that test on labeled rows.

    References
    ----------
    .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
       pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.sklearn import BPLSClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, "spam", "ham").astype(object)
    >>> y[20:] = None
    >>> classifier = BPLSClassifier(rounds=3).fit(X, y)
    >>> classifier.classes_.tolist(), classifier.termination_condition_, int((classifier.labeled_iter_ > 0).sum())
    (['ham', 'spam'], '3 rounds are done', 3)
    """

    def __init__(
        self,
        build_model: BuildModel | None = None,
        criterion: str | Criterion = "ppp",
        *,
        approximation: str = "auto",
        expansion: str = "map",
        labels: str | LabelRule = "predicted",
        rounds: int | None = None,
        batch_size: int = 1,
        stop: Stop | list[Stop] | None = None,
        class_balance: Any = None,
        pseudo_weight: float = 1.0,
        safe: bool | str = AUTO,
        predictor: str = AUTO,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = False,
    ) -> None:
        self.build_model = build_model
        self.criterion = criterion
        self.approximation = approximation
        self.expansion = expansion
        self.labels = labels
        self.rounds = rounds
        self.batch_size = batch_size
        self.stop = stop
        self.class_balance = class_balance
        self.pseudo_weight = pseudo_weight
        self.safe = safe
        self.predictor = predictor
        self.random_seed = random_seed
        self.progressbar = progressbar

    def fit(self, X: Any, y: Any) -> Self:
        """Self-train on labeled and unlabeled rows together; where all are labeled it is the supervised model, and warns.

        Parameters
        ----------
        X : array_like, shape (rows, features)
            Dense numbers, none of them missing. The default model wants features on one scale, as of a StandardScaler.
        y : array_like, shape (rows,)
            Labels: numbers, strings or booleans. −1, None, NaN and `pd.NA` mark unlabeled rows, also where the labels are
            −1 and +1: write 0 and 1 for those.

        Returns
        -------
        BPLSClassifier

        Raises
        ------
        BPLSError
            The labels have one class only, or the model, the rows or the criterion cannot be used.
        """
        X = np.array(validate_data(self, nan_where_masked(X), dtype=np.float64))
        labels, known = read_labels(y)
        check_consistent_length(X, labels)
        codes, self.classes_ = encode(labels, known)
        if len(self.classes_) == 1:
            raise LabelError(
                f"y has one class, {self.classes_[0]}{'' if known.all() else ' (-1 and missing labels mark unlabeled rows)'}. "
                "Give labeled rows of at least two."
            )
        if known.all():
            warn(
                "y contains no unlabeled samples, so that this is the supervised model. Mark unlabeled rows with -1. Ensembles "
                "that encode labels (Voting, Stacking, Bagging, OneVsRest, OneVsOne) make a class of -1: give them a "
                "FrozenEstimator of a fitted BPLSClassifier, and labeled rows alone."
            )
        if self.build_model is None:
            self._warn_of_scales(X)
        self._fit_X, self._fit_codes = X, codes
        pls = self._declare(X, codes)
        if not known.all() and not (self._has_end or self.safe):
            warn(
                f"rounds=None labels all {(~known).sum()} unlabeled rows, which tells a model of y given X nothing and often "
                "does harm. Start with rounds=0, the supervised model, or with safe=True, which keeps it unless labeled rows "
                "prove the run better."
            )
        with whole_runs():
            self.run_ = self._train(pls, some_unlabeled=not known.all())
        self._fit_log_p = Predictive(pls.engine).log_probabilities(self._theta(pls), np.arange(len(X)))
        self._fit_trained = read_trained(self.run_, pls.scorer.problem)
        self._describe_run(labels, known)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities by the last model of the run.

        Parameters
        ----------
        X : array_like, shape (rows, features)

        Returns
        -------
        ndarray, shape (rows, K)
            In the order of `classes_`.

        Raises
        ------
        ModelError
            The model is another one once the new rows are in its table.
        """
        check_is_fitted(self)
        X = validate_data(self, nan_where_masked(X), dtype=np.float64, reset=False)
        n = len(self._fit_X)
        pls = self._declare(np.vstack([self._fit_X, X]), np.r_[self._fit_codes, np.full(len(X), UNLABELED)])
        self._check_unchanged(pls)
        return probabilities_at(pls.scorer, [self._fit_trained], np.arange(n, n + len(X)), {}, None).to_numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable classes.

        Parameters
        ----------
        X : array_like, shape (rows, features)

        Returns
        -------
        ndarray, shape (rows,)
        """
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on labeled rows; unlabeled ones are refused.

        Parameters
        ----------
        X : array_like, shape (rows, features)
        y : array_like, shape (rows,)
        sample_weight : array_like, shape (rows,), optional

        Returns
        -------
        float

        Raises
        ------
        LabelError
            A row is unlabeled, so that no prediction of it is right.
        """
        labels, known = read_labels(y)
        if not known.all():
            raise LabelError(
                f"{(~known).sum()} of {len(known)} rows to score are unlabeled. "
                "Score labeled rows only; for cross-validation use LabeledKFold or cross_validate_labeled."
            )
        return super().score(X, np.array(labels.tolist()), sample_weight)

    def _theta(self, pls: BPLS) -> np.ndarray:
        """The mode as the model on some table counts it."""
        return pls.scorer.problem.density.parameters.counted(self._tables.theta)

    @property
    def _tables(self) -> RunTables:
        return read_tables(self.run_)

    @property
    def _has_end(self) -> bool:
        """Whether something ends a run before the pool is empty."""
        return self.rounds is not None or bool(self.stop)

    def _train(self, pls: BPLS, some_unlabeled: bool) -> xr.DataTree:
        """The run, or the supervised model where it is not proven."""
        if isinstance(self.safe, str) and self.safe != AUTO:
            raise CriterionError(f'safe="{self.safe}" is unknown. Use True, False or "{AUTO}".')
        train = Train(
            self.criterion,
            approximation=self.approximation,
            expansion=self.expansion,
            labels=self.labels,
            rounds=self.rounds,
            batch_size=self.batch_size,
            stop=self.stop,
            class_balance=self.class_balance,
            pseudo_weight=self.pseudo_weight,
        )
        again: dict[str, Any] = {"random_seed": self.random_seed, "progressbar": self.progressbar}
        if not self.safe or not some_unlabeled or (self.safe == AUTO and self._has_end):
            return pls.run(train, **again)
        run = beside(train, True)
        if self.safe != AUTO:
            return pls.choose(run, **again).noted
        try:
            with within_seconds(_BUDGET):
                return pls.choose(run, repeats=1, **again).noted
        except OutOfTime:
            verdict = (
                f"Whether the run predicts better was not known after {_BUDGET} seconds, so that the supervised model is kept. "
                "Give rounds= or stop= for a run, a larger batch_size= for a faster one, or safe=True for a proof that takes "
                "longer."
            )
            warn(verdict)
            supervised = pls.run(replace(train, rounds=0), **again)
            supervised.attrs |= {"choice": SUPERVISED, "choice_verdict": verdict}
            return supervised

    def _warn_of_scales(self, X: np.ndarray) -> None:
        """Where the default prior, which is one for all features, meets some that vary far more than others."""
        varying = np.flatnonzero(np.ptp(X, axis=0) > 0)
        spreads = X[:, varying].std(axis=0)
        if not varying.size or spreads.max() <= _ONE_SCALE * spreads.min():
            return
        names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
        most, least = (names[varying[position]] for position in (spreads.argmax(), spreads.argmin()))
        warn(
            f"Feature {most} varies more than {_ONE_SCALE} times as much as feature {least}, and the default prior is the same "
            "for all. Put a StandardScaler before the classifier, in a Pipeline."
        )

    def _declare(self, X: np.ndarray, codes: np.ndarray) -> BPLS:
        if self.build_model is not None and (not callable(self.build_model) or hasattr(self.build_model, "fit")):
            kind = self.build_model if isinstance(self.build_model, type) else type(self.build_model)
            raise ModelError(
                f"build_model= is a {kind.__name__}. Give a function build_model(X, codes) that returns a "
                "pymc.Model; scikit-learn's SelfTrainingClassifier is what self-trains an estimator."
            )
        if callable(self.predictor):
            raise CriterionError('predictor= is a callable, which cannot know rows of another table. Use "auto" or "map".')
        model = (self.build_model or logistic_regression)(X, codes)
        if not isinstance(model, pm.Model):
            raise ModelError(f"build_model returned a {type(model).__name__}. Return the pymc.Model.")
        try:
            pls = BPLS(model, classes=self.classes_, predictor=self.predictor)
        except ClassCountError as error:
            raise LabelError(
                f"y has {len(self.classes_)} classes, and the model of build_model declares {error.n_declared}. "
                "Declare one for each: pm.Bernoulli has two, pm.Categorical as many as its probabilities."
            ) from None
        if pls.scorer.problem.density.joint is not None:
            raise ModelError(NO_ROW)
        return pls

    def _describe_run(self, labels: np.ndarray, known: np.ndarray) -> None:
        tables = self._tables
        history = tables.history
        rows, rounds = history["candidate"].to_numpy(), history["round"].to_numpy()
        self.transduction_ = labels.copy()
        self.transduction_[rows] = history["pseudo_label"].to_numpy()
        self.labeled_iter_ = np.where(known, 0, -1)
        self.labeled_iter_[rows] = rounds
        self.n_iter_ = int(rounds.max(initial=0))
        self.termination_condition_ = "no row is unlabeled" if known.all() else tables.stop_reason

    def _check_unchanged(self, pls: BPLS) -> None:
        """The parameters are those of the fit, and the training rows are predicted as they were."""
        fitted = self._tables.parameters
        parameters = tuple(pls.scorer.problem.density.parameters.labels)
        if parameters != fitted:
            raise ModelError(
                f"The model has {len(fitted)} parameters in fit and {len(parameters)} with new rows, as where "
                "each row has its own. Such a model predicts rows of its table only: put them into fit, see transduction_."
            )
        log_p = Predictive(pls.engine).log_probabilities(self._theta(pls), np.arange(len(self._fit_X)))
        if not np.allclose(log_p, self._fit_log_p, rtol=1e-6, atol=1e-8, equal_nan=True):
            raise ModelError(
                "New rows change what the model predicts for the training rows, as where build_model standardises X. "
                "Compute statistics of X outside of it, in a Pipeline."
            )


def cross_validate_labeled(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: Any = None,
    random_seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    """Cross-validate self-training against the supervised model: is anything gained?

    Labeled rows only are dealt into folds. All unlabeled rows are in every training set, and the whole run is done inside
    each fold, also that of a Pipeline's other steps. The supervised model is the same estimator with `rounds=0`.

    Parameters
    ----------
    estimator : BPLSClassifier, or a Pipeline (or another meta-estimator) with one in it
    X : array_like, shape (rows, features)
    y : array_like, shape (rows,)
        As in `BPLSClassifier.fit`.
    cv : int, splitter or iterable of (train, test), default 5
        The number of stratified folds, shuffled; a splitter is given the labeled rows only, and splits are positions among the
        labeled rows.
    groups : array_like, shape (rows,), optional
        Rows of one group are never on both sides of a fold, unlabeled ones included: for a number of folds, and for splitters
        such as GroupKFold.
    scoring : optional
        As in scikit-learn's `cross_validate`, larger is better; accuracy and mean log probability of the true classes
        ("log_score", minus the log loss) by default.
    random_seed : int or numpy Generator, optional
        For the shuffling.

    Returns
    -------
    xarray.Dataset
        `score` (metric, model, fold); `difference` (metric), the mean over folds of self-training minus supervised;
        `standard_error` (metric) of it, corrected for training sets that overlap (Nadeau and Bengio, 2003); attrs `verdict`,
        which says when nothing was gained beyond chance (at 95 %, by t with one degree of freedom fewer than folds).

    Raises
    ------
    BPLSError
        There is no BPLSClassifier in `estimator`, or it is in an ensemble that makes a class of −1; a fold trains on no row of
        a class; `cv` or `groups` do not fit the rows.

    See Also
    --------
    LabeledKFold : its folds.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bpls.sklearn import BPLSClassifier, cross_validate_labeled
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)
    >>> y[20:] = -1
    >>> result = cross_validate_labeled(BPLSClassifier(rounds=1), X, y, cv=2, random_seed=0)
    >>> dict(result.sizes)
    {'metric': 2, 'model': 2, 'fold': 2}
    """
    check(random_seed=random_seed)
    models = {"supervised": _supervised(estimator), "self-training": estimator}
    labels, known = read_labels(y)
    codes, classes = encode(labels, known)
    rows, unlabeled = np.flatnonzero(known), np.flatnonzero(~known)
    truth, groups = classes[codes[rows]], read_groups(groups, len(labels))
    if isinstance(cv, Integral):
        cv = LabeledKFold(int(cv), shuffle=True, random_state=int(np.random.default_rng(random_seed).integers(2**31)))
    scores, sizes = [], []
    for train, test in splits(cv, _rows(X, rows), truth, None if groups is None else groups[rows]):
        others = unlabeled if groups is None else unlabeled[~np.isin(groups[unlabeled], groups[rows[test]])]
        some = np.sort(np.r_[rows[train], others])
        fitted = [_without_marker(clone(model).fit(_rows(X, some), labels[some])) for model in models.values()]
        scores.append([_scores(model, _rows(X, rows[test]), truth[test], scoring) for model in fitted])
        sizes.append(len(test) / len(train))
    metrics = list(scores[0][0])
    values = np.array([[[model[metric] for metric in metrics] for model in fold] for fold in scores])
    result = xr.Dataset(
        {"score": (("fold", "model", "metric"), values)}, coords={"metric": metrics, "model": list(models)}
    ).transpose("metric", "model", "fold")
    return _compared(result, float(np.mean(sizes)), len(rows))


def _supervised(estimator: Any) -> Any:
    """The same estimator, whose BPLSClassifier does no round."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise CriterionError(f"estimator= is no object of an estimator, but {kind}. Give BPLSClassifier(), or a Pipeline.")
    held = {"": estimator, **estimator.get_params()}
    names = [name for name, value in held.items() if isinstance(value, BPLSClassifier)]
    if not names:
        raise CriterionError(
            f"estimator= is a {type(estimator).__name__} without a BPLSClassifier. Give one, or a Pipeline that ends in one."
        )
    return clone(estimator).set_params(**{f"{name}__rounds" if name else "rounds": 0 for name in names})


def _without_marker(fitted: Any) -> Any:
    """The fitted estimator, unless it took the marker of unlabeled rows for a class."""
    names = getattr(fitted, "classes_", np.array([]))
    if any(pd.isna(name) or name == UNLABELED for name in names):
        raise LabelError(
            f"{type(fitted).__name__} makes a class of the marker of unlabeled rows: its classes_ are "
            f"{np.asarray(names).tolist()}. Put it around a FrozenEstimator of a fitted BPLSClassifier, and fit it to labeled "
            "rows."
        )
    return fitted


def _scores(fitted: Any, X: Any, truth: np.ndarray, scoring: Any) -> dict[str, float]:
    if scoring is None:
        p = fitted.predict_proba(X)
        right = fitted.classes_[p.argmax(axis=1)] == truth
        return {"accuracy": float(right.mean()), "log_score": -float(log_loss(truth, p, labels=fitted.classes_))}
    found = check_scoring(fitted, scoring=scoring)(fitted, X, truth)
    return found if isinstance(found, dict) else {scoring if isinstance(scoring, str) else "score": float(found)}


def _compared(result: xr.Dataset, test_share: float, n_labeled: int) -> xr.Dataset:
    """With paired differences, their standard errors and the verdict."""
    differences = result["score"].sel(model="self-training", drop=True) - result["score"].sel(model="supervised", drop=True)
    folds = differences.sizes["fold"]
    spread = differences.std("fold", ddof=1) if folds > 1 else xr.full_like(differences.mean("fold"), np.nan)
    result = result.assign(difference=differences.mean("fold"), standard_error=spread * np.sqrt(1 / folds + test_share))
    return result.assign_attrs(verdict=_verdict(result, n_labeled))


def _verdict(result: xr.Dataset, n_labeled: int) -> str:
    folds = result.sizes["fold"]
    bound = scipy.stats.t.ppf(0.5 + _CONFIDENCE / 2, folds - 1)
    means = result["score"].mean("fold")
    said: list[str] = []
    better: list[str] = []
    worse: list[str] = []
    for metric in result["metric"].to_numpy().tolist():
        difference, error = (float(result[name].sel(metric=metric)) for name in ("difference", "standard_error"))
        before, after = (float(means.sel(metric=metric, model=model)) for model in ("supervised", "self-training"))
        said.append(f"{metric} is {after:.3f} with self-training and {before:.3f} without ({plus_minus(difference, error)})")
        if abs(difference) > bound * error:
            (better if difference > 0 else worse).append(metric)
    if not better and not worse:
        end = "nothing was gained beyond chance"
    else:
        told = [f"{text} {' and '.join(names)}" for text, names in (("raised", better), ("lowered", worse)) if names]
        end = f"self-training {' and '.join(told)}"
    return f"Over {folds} folds of {n_labeled} labeled rows {', '.join(said)}: {end}."


def _rows(X: Any, rows: np.ndarray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(nan_where_masked(X))[rows]
