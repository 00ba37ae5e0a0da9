"""The front door: a model declared in PyMC, whose unlabeled rows are scored and pseudo-labeled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.model.core import modelcontext

from pymc_bpls.acceptance.accept import accept
from pymc_bpls.arguments import check
from pymc_bpls.bambi import from_bambi, is_bambi
from pymc_bpls.compute.compiler import Compiler
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.work import working
from pymc_bpls.engine.engine import Engine
from pymc_bpls.engine.laplace_fit import LaplaceFit, as_fit
from pymc_bpls.errors import CriterionError, LabelError, ModelError, warn
from pymc_bpls.lazy.containers import is_lazy
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.lazy.sums import PoolSums
from pymc_bpls.model.data.index import is_list_of_rows, is_one_value
from pymc_bpls.model.data.table import by_container, check_classes, refuse_no_pool
from pymc_bpls.model.prior_sets import Variant
from pymc_bpls.model.problem import declare
from pymc_bpls.montecarlo.other_modes import NOT_LOOKED_FOR, Search, find_modes
from pymc_bpls.montecarlo.pair_modes import off_by_modes
from pymc_bpls.pool.information import Information, find_information
from pymc_bpls.pool.marginalize import Summed, marginalize
from pymc_bpls.pool.posterior import FITS
from pymc_bpls.scoring.criteria import Criterion
from pymc_bpls.scoring.engines import EngineForEachD, OneEngine
from pymc_bpls.scoring.fitted import ModelFit
from pymc_bpls.scoring.one_model import ModelScorer
from pymc_bpls.scoring.predictors import check_predictor, settled_predictor
from pymc_bpls.scoring.scorer import label_options
from pymc_bpls.scoring.settings import Settings
from pymc_bpls.selector import PseudoLabelSelector
from pymc_bpls.selftraining.planning import read_test
from pymc_bpls.summaries.problem import summarise_problem
from pymc_bpls.text.provenance import made_with
from pymc_bpls.text.summary import Summary
from pymc_bpls.trained.result import read_trained
from pymc_bpls.trained.sample import Sampling, sample_final


class BPLS(PseudoLabelSelector):
    """Bayesian pseudo-label selection for a classifier declared in PyMC.

    The whole table, labeled and unlabeled rows together, is declared once; unlabeled rows carry −1. Data is captured at
    construction: later changes of the model's containers are not seen.

    Parameters
    ----------
    model : pymc.Model or bambi.Model, optional
        The model on the context stack by default; or a `bambi.Model`, whose labels are given in `observed=`.
    target : str or variable, optional
        The observed variable that holds the labels, needed where there are several; the others stay part of the density.
    pool : mapping of str to array_like, DataFrame, or a lazy pool, optional
        New, unlabeled rows for each `pm.Data` container with a value a row, for a model declared on labeled rows only; a
        DataFrame has a column of each one's name.
        Columns of a DataFrame, and dims and coordinates of a DataArray, are matched by name where the model's coords and dims
        name them; rows are matched by position.
        Or a pool that is read by partitions, whose containers are Dask's arrays or frames, or variables of a lazily opened
        Dataset; a frame of Dask with all columns; or an iterable that gives such mappings of arrays each time anew, with their
        `lengths` as an attribute. The table then holds labeled rows alone.
    unlabeled : int, mask of bool, positions, or names of the index, default −1
        The label that marks a candidate, or which rows are candidates, whatever their labels. Rows neither labeled nor
        candidates are held out. Whole numbers are positions, a pandas Index always is names.
    observed : array_like, optional
        The labels beside a `bambi.Model`, as its frame has them, with None, NaN or −1 where there is none: Bambi wants a valid
        label in every row, and cannot say which are stand-ins. Rows without a label that are no candidates are held out.
    classes : array_like, optional
        What the class codes stand for; for a distribution whose classes are unknown, the values of its labels.
    index : pandas.Index or array_like, optional
        The user's index of the rows, of any kind, by default from the model's coords and the pool's frame. Results have it as
        a coordinate of its name (`index_` before a name that results use themselves); `read_index` has it back as it was.
    predictor : {"auto", "map", "ep", "vi", "laplace"} or callable, default "auto"
        Gives pseudo-labels, and what `predict_proba` says by default: class probabilities averaged over an approximation of
        the posterior given D; at the mode ("map"), as in the paper; or `predictor(positions)`, an array of shape (rows,
        classes). "auto" averages over the approximation that the criterion is scored by, and beside criteria that have none
        ("probability", "random", functions of your own) over the one that `score("ppp")` takes. Where nobody named Laplace's
        method and that took it, `predict_proba`, which is one fit, averages by "vi". Under improper priors "auto" is at the
        mode. Runs keep their predictor.
    initvals : mapping, optional
        Where to start looking for the mode, by variable.

    Raises
    ------
    BPLSError
        The model, its labels or its rows cannot be used; the message says which and what to do.

    See Also
    --------
    ModelSet : several models, or several priors of one, that select together.
    pymc_bpls.sklearn.BPLSClassifier : the same as a scikit-learn estimator.

    References
    ----------
    .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
       pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    >>> y[20:] = -1
    >>> with pm.Model() as model:
    ...     beta = pm.Normal("beta", 0, 2.5, shape=2)
    ...     label = pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    >>> pls = bpls.BPLS(model)
    >>> scores = pls.score()
    >>> scores.sizes["candidate"]
    40
    """

    _scorer: ModelScorer

    def __init__(
        self,
        model: Any = None,
        *,
        target: Any = None,
        pool: Mapping[str, Any] | pd.DataFrame | None = None,
        unlabeled: Any = -1,
        observed: Any = None,
        classes: Any = None,
        index: Any = None,
        predictor: str | Callable[[np.ndarray], Any] = "auto",
        initvals: Mapping[str, Any] | None = None,
    ) -> None:
        check_predictor(predictor)
        variant = model if isinstance(model, Variant) else None
        model = model if variant is None else variant.model
        bambi = from_bambi(model, observed, unlabeled, classes, index) if is_bambi(model) else None
        if bambi is None and observed is not None:
            raise LabelError("observed= goes with a bambi.Model. Declare labels in the PyMC model, -1 where there is none.")
        if bambi is not None:
            model = bambi.model
            target = bambi.target if target is None else target
            classes = bambi.classes if classes is None else classes
            index = bambi.index
        model = _find_model(model)
        rows: Any = by_container(pool, model, "pool")
        if isinstance(rows, pd.DataFrame) or not is_lazy(rows):
            refuse_no_pool(rows, model)
        problem = declare(
            model,
            target=target,
            pool=None if is_lazy(rows) else rows,
            unlabeled=unlabeled if bambi is None else bambi.unlabeled,
            classes=classes,
            index=index,
            initvals=initvals,
            variant=variant,
        )
        self._problem = problem if bambi is None else bambi.restate(problem)
        if is_lazy(rows):
            self._lazy = LazyPool.of(rows, self._problem)
            self._problem = replace(self._problem, table=self._lazy.table)
        density, name = self._problem.density, self._problem.name
        engine = Engine(density, Compiler(), conditional=self._problem.class_conditional)
        engines = OneEngine(engine) if density.joint is None else EngineForEachD(engine, name)
        self._scorer = ModelScorer(self._problem, engines, settled_predictor(predictor, proper=self._problem.proper))
        self._search: Search | None = None
        self._warn(unlabeled, pool)

    def _warn(self, unlabeled: Any, pool: Any) -> None:
        """Say what a user may not have meant: no candidate, classes without a labeled row, labels that are not used."""
        hidden = self._problem.hidden
        if hidden and is_list_of_rows(unlabeled):
            warn(f'unlabeled= lists {hidden} rows of "{self._problem.name}" that hold a label. Their labels are not used.')
        if pool is not None and self._lazy is None and not len(self._problem.table.candidates):
            warn(
                f'pool= adds no rows to "{self._problem.name}", so that there is no candidate. Give it rows without '
                "labels, or leave it out."
            )
        booleans = self._problem.classes.values.dtype.kind == "b" and self._lazy is None
        if booleans and not len(self._problem.table.candidates) and is_one_value(unlabeled):
            warn(
                f'The labels of "{self._problem.name}" are booleans, which hold no -1, so that there is no candidate. '
                "Declare them as whole numbers with -1 where there is none, or list the unlabeled rows in unlabeled=."
            )
        absent = check_classes(self._problem.table, self._problem.classes.names, self._problem.name)
        if absent:
            only = np.unique(self._problem.labeled.codes)
            alone = f", and every one is of class {self._problem.classes.names[only[0]]}" if len(only) == 1 else ""
            warn(
                f'"{self._problem.name}" has no labeled row of class {", ".join(map(str, absent))}. '
                f'It is never a pseudo-label under labels="predicted"{alone}.'
            )
        if self._problem.distribution == "BetaBinomialRV":
            warn(
                f'"{self._problem.name}" is a Beta-Binomial of one trial a row, which says nothing about its concentration. '
                "That follows its prior alone; pm.Bernoulli is the same model without it."
            )

        if self._problem.lags_hidden_labels:
            warn(
                f'The data holds the labels of "{self._problem.name}" one row later, with -1 where there is none, as a value. '
                "For a lag make it of the pm.Data that is observed, pt.concatenate([[0], y[:-1]])."
            )

    def _look_for_modes(self, wanted: bool, make_fit: Callable[[], ModelFit]) -> str:
        if wanted and self._search is None:
            fit = make_fit()
            self._search = find_modes(fit.engine, fit.labeled, 1, fit.mode)
            if self._search.warning is not None:
                warn(self._search.warning)
        return NOT_LOOKED_FOR if self._search is None else str(self._search)

    @property
    def _several_modes(self) -> bool:
        return self._search is not None and len(self._search.modes) > 1

    def _judge_modes(self, scorer: ModelScorer, settings: Settings, fit: ModelFit, scores: np.ndarray) -> None:
        known, criterion = self._search, settings.criterion
        if known is None or len(known.modes) < 2 or not isinstance(criterion, Criterion) or criterion.absolute is None:
            return
        options = label_options(scorer, settings.rule, fit, self._problem.table.candidates)
        if options.codes.shape != scores.shape or not scores.size or options.weigh is not None:
            return
        said = off_by_modes(fit.engine, fit.labeled, criterion.k, known, options.pairs, scores.ravel())
        if said is not None:
            warn(said)

    @property
    def _summary(self) -> Summary:
        return summarise_problem(self._problem, 0 if self._lazy is None else self._lazy.partitions.n_rows)

    def __repr__(self) -> str:
        return "\n".join(self._summary.sentences[:2])

    @property
    def scorer(self) -> ModelScorer:
        """What fits, predicts and scores, for any D: for studies that compose runs of their own."""
        return self._scorer

    @property
    def engine(self) -> Engine:
        """Fits of this model, log-likelihoods of its rows and refits of its candidates, for D as it is labeled."""
        return self._scorer.engines.of(self._problem.labeled).engine

    def fit(self, *, other_modes: bool = True, progressbar: bool = True) -> LaplaceFit:
        """The verified mode of the log-posterior given the labeled rows, and its Hessian.

        Parameters
        ----------
        other_modes : bool, default True
            As in `score`.
        progressbar : bool, default True
            Whether a line says what is going on, where that takes more than three seconds.

        Returns
        -------
        LaplaceFit

        Raises
        ------
        ModeError
            There is no trustworthy mode: the parameters to blame are named.
        """
        check(other_modes=other_modes)
        with working("fit", progressbar):
            fit = self._scorer.fit(self._problem.labeled)
            others = self._look_for_modes(other_modes, lambda: fit)
        mode = fit.mode
        evidence = mode.log_integral if self._problem.proper else None
        return as_fit(mode, self._problem.density.parameters, evidence, others)

    def sample(
        self,
        result: Any = None,
        *,
        method: str = "nuts",
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        nuts_sampler: str | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
        **sample_kwargs: Any,
    ) -> Any:
        """The posterior of the final model, D with its pseudo-labels, as ArviZ takes it.

        Parameters
        ----------
        result : optional
            A run of `self_train` or `resume`; the labeled rows alone by default.
        method : {"nuts", "gaussian"}, default "nuts"
            NUTS through `pm.sample`, or draws of the approximation that `predict_proba` averages over.
        draws, tune, chains, nuts_sampler, **sample_kwargs
            As in `pm.sample`.
        random_seed : int or numpy Generator, optional
        progressbar : bool, default True
            As in `score`; it takes the place of the sampler's own.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            What the installed ArviZ takes (a DataTree from ArviZ 1 on): `posterior` with the model's free variables and
            Deterministics, `unconstrained_posterior`, `sample_stats`; of the labeled rows, which alone are data,
            `log_likelihood`, `posterior_predictive` and `observed_data`, classes as codes; `predictions`, mean and standard
            deviation of the class probabilities of all other rows; `labeled`, the rows of D. Pseudo-labeled rows are marked by
            `origin` and `round`. `loo` judges the labeled rows: pseudo-labels that they gave rise to stay in D, so that it is
            optimistic after self-training. Rows that depend on each other have no `log_likelihood`.

        Raises
        ------
        BPLSError
            The sampler failed; its own words are passed on.

        See Also
        --------
        predict_proba : class probabilities by these draws.
        exact : its `/posterior` counts the likelihood twice for "ppp".

        References
        ----------
        .. [1] Hoffman, M. D. and Gelman, A. (2014). The No-U-Turn sampler. JMLR 15, 1593-1623.
           https://doi.org/10.48550/arXiv.1111.4246
        .. [2] Vehtari, A., Gelman, A. and Gabry, J. (2017). Practical Bayesian model evaluation using leave-one-out
           cross-validation and WAIC. Statistics and Computing 27, 1413-1432. https://doi.org/10.1007/s11222-016-9696-4

        Examples
        --------
        >>> import arviz as az, numpy as np, pymc as pm, pymc_bpls as bpls
        >>> x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
        >>> with pm.Model() as model:
        ...     slope = pm.Normal("slope", 0, 1)
        ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 0, 1, 1, -1, -1])
        >>> pls = bpls.BPLS(model)
        >>> run = pls.self_train(rounds=1, progressbar=False)
        >>> posterior = pls.sample(run, method="gaussian", random_seed=0)
        >>> posterior["log_likelihood"]["label"].sizes["row"], str(posterior["labeled"]["origin"].values[-1])
        (4, 'pseudo-labeled')
        >>> az.summary(posterior, var_names=["slope"]).index.tolist()
        ['slope']
        """
        check(random_seed=random_seed)
        options = {**({} if nuts_sampler is None else {"nuts_sampler": nuts_sampler}), **sample_kwargs}
        made = made_with(random_seed, method=method, draws=draws, tune=tune, chains=chains, **options)
        sampling, rng = Sampling(method, draws, tune, chains, options), np.random.default_rng(random_seed)
        if self._lazy is not None and result is not None:
            raise CriterionError(
                "result= was trained over a lazy pool, whose rows sample() has none of. Declare the rows that it added with "
                "their pseudo-labels in the table of another BPLS, and sample that; predict_proba takes the run."
            )
        trained = read_trained(result, self._problem)
        with working("sample of the final model", progressbar):
            return sample_final(self._scorer, trained, sampling, rng, made)

    def information(self, *, executor: Executor | None = None, progressbar: bool = True) -> Information:
        """Whether the candidates, without their labels, can tell this model anything, and how much.

        A model that describes y given x only learns nothing from them, whatever is trained on pseudo-labels. A model whose
        labels reach other observed variables (class-conditional) does. Where unlabeled rows enter another term of the model as
        declared, the verdict names it.

        Parameters
        ----------
        executor : optional
            Of a lazy pool, as in `score`: it is passed over once.
        progressbar : bool, default True
            As in `fit`.

        Returns
        -------
        Information
            `print` it for the verdict.

        Raises
        ------
        ModelError
            Likelihoods do not add up to 1 over the classes, or features of one row depend on other rows.

        See Also
        --------
        marginalize : the posterior that takes in what the pool says.

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> x = np.array([-2.1, -0.9, 1.2, 1.8, -1.5, 0.4, 2.2, -1.1])
        >>> with pm.Model() as model:
        ...     shift = pm.Normal("shift", 0, 2)
        ...     label = pm.Bernoulli("label", 0.5, observed=[0, 0, 1, 1, -1, -1, -1, -1])
        ...     features = pm.Normal("features", shift * (2 * label - 1), 1, observed=x)
        >>> found = bpls.BPLS(model, target="label").information()
        >>> found.informative, round(found.equivalent_labels, 1)
        (True, 3.0)
        """
        check(executor=executor)
        summed = self._sums_over_pool(executor)
        with working("information of the pool", progressbar):
            fit = self._scorer.fit(self._problem.labeled, centre_of="vi")
            return find_information(self._problem, fit, None if summed is None else summed(fit, 1.0))

    def _sums_over_pool(self, executor: Executor | None) -> Summed | None:
        """What sums over the rows of a lazy pool; None where there are candidates in memory."""
        if self._lazy is not None:
            return partial(PoolSums, self._lazy, executor, {})
        if executor is not None:
            raise CriterionError("executor= runs passes over a lazy pool, and this pool is in memory. Leave it out.")
        self._needs_candidates()
        return None

    def accept(
        self,
        alpha: float = 0.05,
        *,
        by: str = "leave-one-out",
        per_class: bool = False,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
    ) -> xr.Dataset:
        """Pseudo-labels that can be handed on, with at most a share `alpha` of wrong ones expected; the rest is for a person.

        Labeled rows, each predicted without its own label, show how often predictions as confident as a candidate's are wrong.
        That makes a p-value of "this pseudo-label is wrong" for each candidate, and Benjamini and Hochberg's procedure accepts
        as many labels as the bound admits [1]_. No model has to be right for that: a poor one gets little accepted.

        Parameters
        ----------
        alpha : float, default 0.05
            The largest share of wrong labels among the accepted ones, in expectation. Fewer than 1/alpha − 1 labels accept
            nothing.
        by : {"leave-one-out", "split"}, default "leave-one-out"
            Every labeled row predicted from all others, by EP's cavities [4]_ or else by a refit for each row, for which the
            bound is approximate; or a random half of them, and the candidates, predicted from the other half, for which it
            holds in finite samples.
        per_class : bool, default False
            Whether the bound holds among the accepted labels of each class, which takes 1/alpha − 1 labeled rows that are
            predicted to be of it.
        random_seed : int or numpy Generator, optional
            For the split.
        progressbar : bool, default True
            As in `fit`.

        Returns
        -------
        xarray.Dataset
            Over `candidate`, with the user's index: `pseudo_label` and `confidence`, the class with the largest probability as
            the `predictor` of `BPLS` gives it; `p_value`; `accepted`; `covered`, whether labeled rows look like it; `bald`,
            what its label would tell of the parameters [2]_, by which `rank` orders the rows that are left, 1 first. attrs:
            `verdict` and `guarantee` in sentences, `calibration` (confidence beside accuracy of labeled rows) with
            `calibration_rows`, `calibration_confidence` and `calibration_right`, `n_calibration`, and `not_covered`, the share
            of candidates that labeled rows do not cover. There is a warning where these are more than chance admits, as rows of
            a class that no label has [3]_: they are never accepted.

        Raises
        ------
        RowError
            There are no candidates, or there is one labeled row.
        ModeError
            The labeled rows, or all but one of them, have no mode.

        See Also
        --------
        self_train : adds pseudo-labels without a guarantee.

        References
        ----------
        .. [1] Jin, Y. and Candès, E. J. (2023). Selection by prediction with conformal p-values. JMLR 24(244), 1-41.
           https://doi.org/10.48550/arXiv.2210.01408
        .. [2] Houlsby, N., Huszár, F., Ghahramani, Z. and Lengyel, M. (2011). Bayesian active learning for classification and
           preference learning. https://doi.org/10.48550/arXiv.1112.5745
        .. [3] Bates, S., Candès, E., Lei, L., Romano, Y. and Sesia, M. (2023). Testing for outliers with conformal p-values.
           Annals of Statistics 51, 149-178. https://doi.org/10.1214/22-AOS2244
        .. [4] Opper, M. and Winther, O. (2000). Gaussian processes for classification: mean-field algorithms. Neural
           Computation 12, 2655-2684. https://doi.org/10.1162/089976600300014881

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(120, 2))
        >>> y = np.where(np.arange(120) < 40, 3 * X[:, 0] + rng.logistic(size=120) > 0, -1)
        >>> with pm.Model() as model:
        ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
        >>> found = bpls.BPLS(model).accept(0.1, progressbar=False)
        >>> found.accepted.sum().item(), round(found.p_value.min().item(), 3)
        (0, 0.024)
        >>> found.attrs["calibration"].split(", and")[0]
        'Of 40 labeled rows, each predicted without its own label, 32 (80%) are predicted right'
        """
        check(alpha=alpha, by=by, per_class=per_class, random_seed=random_seed)
        if self._lazy is not None:
            raise CriterionError(
                "accept() orders the p-values of all rows, and the pool is lazy. Give a random part of its rows as the pool of "
                "another BPLS; the best by a score are unlike the labeled rows, so that the bound would not hold for them."
            )
        self._needs_candidates()
        made = made_with(random_seed)
        with working("labels to accept", progressbar):
            found = accept(self._scorer, alpha, by, per_class=per_class, rng=np.random.default_rng(random_seed))
            self._look_for_modes(True, lambda: read_trained(None, self._problem).fit(self._scorer))
        return found.assign_attrs(made)

    def marginalize(
        self,
        weight: float = 1.0,
        *,
        approximation: str = "laplace",
        test: Any = None,
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        nuts_sampler: str | None = None,
        executor: Executor | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """The posterior with the candidates' labels integrated out: p(θ | D, pool) ∝ π exp(ℓ_D + λ Σ_u log Σ_y exp ℓ_u(y)).

        Where the model is class-conditional and right, this is what a pool is worth. For a model of y given x it is the
        posterior of the labeled rows. Several modes are normal, and are looked for.

        Parameters
        ----------
        weight : float, default 1
            λ: 1 is Bayes; a smaller one hedges against a wrong model of the features.
        approximation : {"laplace", "vi", "nuts"}, default "laplace"
            Where draws are from: t distributions around the Gaussian at the mode with the most mass, or around the
            variational one that is found from there, around all other modes and around the fit on D, all weighted by the
            density (importance sampling [3]_); or NUTS.
        test : tuple, optional
            As in `self_train`; test rows of the table are not part of the pool.
        draws, tune, chains, nuts_sampler
            As in `pm.sample`, for "nuts"; importance sampling takes `chains · draws` in all, always the same ones.
        executor : optional
            Of a lazy pool, as in `score`. It is passed over for each derivative of the density, some hundred times, and for the
            draws, and "laplace" is the only approximation.
        random_seed : int or numpy Generator, optional
            For "nuts".
        progressbar : bool, default True

        Returns
        -------
        xarray.DataTree
            `/labels` over (`candidate`, `class`), but not of a lazy pool: `probability`, its posterior standard deviation and
            (of weighted draws) Monte Carlo error, and the most probable `label`; `/final` and `/unconstrained` (the Gaussian's
            centre, by variable and in θ, with mean and standard deviation by the draws) or, of NUTS, `/posterior` and
            `/sample_stats`; draws of θ,
            by which `predict_proba` takes the result; `/modes`, all that were found, with their shares of the mass by
            Laplace's method; with test rows `/curve` over `n_pseudo`, as a run's: the supervised model, by the same
            approximation, at 0 and this one; and `/test`. attrs: `verdict`, `modes` (their number), `mode_share`, `reliable`,
            `reasons`, `nats` and `equivalent_labels` as of `information`, `draws` (how they count), and of weighted ones k-hat
            (`pareto_k`), how many draws they are worth (`ess`), and the log of the density's integral (`log_z`) with its error.

        Raises
        ------
        CriterionError
            The approximation or the weight is none.
        ModelError
            Rows depend on each other, or likelihoods do not add up to 1 over the classes.
        ModeError
            There is no mode.

        See Also
        --------
        information : whether this can help, beforehand.
        self_train : adds pseudo-labels instead.

        References
        ----------
        .. [1] Nigam, K., McCallum, A. K., Thrun, S. and Mitchell, T. (2000). Text classification from labeled and unlabeled
           documents using EM. Machine Learning 39, 103-134. https://doi.org/10.1023/A:1007692713085
        .. [2] Cozman, F. G. and Cohen, I. (2006). Risks of semi-supervised learning: how unlabeled data can degrade performance
           of generative classifiers. In Semi-Supervised Learning, MIT Press, 57-72.
        .. [3] Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance sampling. JMLR
           25(72), 1-58. https://doi.org/10.48550/arXiv.1507.02646

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> x = np.array([-2.1, -0.9, 1.2, 1.8, -1.5, 0.4, 2.2, -1.1])
        >>> with pm.Model() as model:
        ...     shift = pm.Normal("shift", 0, 2)
        ...     label = pm.Bernoulli("label", 0.5, observed=[0, 0, 1, 1, -1, -1, -1, -1])
        ...     features = pm.Normal("features", shift * (2 * label - 1), 1, observed=x)
        >>> found = bpls.BPLS(model, target="label").marginalize(progressbar=False)
        >>> found["final"].shift.item() < 1.42, found["labels"].label.values
        (True, array([0, 1, 1, 0]))
        """
        check(weight=weight, draws=draws, tune=tune, chains=chains, random_seed=random_seed, executor=executor)
        if not isinstance(approximation, str) or approximation not in FITS:
            raise CriterionError(f'approximation="{approximation}" is unknown. Use one of {", ".join(map(repr, FITS))}.')
        summed = self._sums_over_pool(executor)
        if summed is not None and approximation != "laplace":
            raise CriterionError(
                f'approximation="{approximation}" needs all rows at once, and the pool is lazy. Use "laplace", which sums over '
                "its rows."
            )
        options: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains}
        if nuts_sampler is not None:
            options["nuts_sampler"] = nuts_sampler
        made = made_with(random_seed, method=approximation, **options)
        options["random_seed"] = int(np.random.default_rng(random_seed).integers(2**31))
        with working("labels integrated out", progressbar):
            scorer, test_set = read_test(test, self._scorer)
            assert isinstance(scorer, ModelScorer)
            tree = marginalize(scorer, weight, approximation, test_set, options, summed)
        tree.attrs.update(made)
        return tree


def _find_model(model: Any) -> pm.Model:
    if model is None:
        try:
            return modelcontext(None)
        except TypeError:
            raise ModelError(
                "No model was given and none is on the context stack. Call BPLS(model), or BPLS() inside `with model:`."
            ) from None
    if not isinstance(model, pm.Model):
        raise ModelError(f"model= is a {type(model).__name__}. Give a pymc.Model or a bambi.Model.")
    return model
