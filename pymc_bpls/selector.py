"""What a model and a set of models share: scores of the pool, self-training, exact values, and audits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.acceptance.strangers import warn_of_strangers
from pymc_bpls.arguments import check
from pymc_bpls.audit.along import ALONG, AuditAlong, audit_track
from pymc_bpls.audit.forms import AUDITED, read_forms
from pymc_bpls.audit.make import audit_pool
from pymc_bpls.audit.report import Audit
from pymc_bpls.audit.track import read_track
from pymc_bpls.audit.truth import candidate_of, sampler_of
from pymc_bpls.choosing.choice import Choice
from pymc_bpls.choosing.choose import Trial, make_choice
from pymc_bpls.choosing.pipelines import beside, read_pipelines
from pymc_bpls.compute.executors import Executor
from pymc_bpls.compute.work import working
from pymc_bpls.errors import CriterionError, RowError
from pymc_bpls.lazy.pool import LazyPool
from pymc_bpls.lazy.scoring import scores_of_pool
from pymc_bpls.lazy.trained import class_probabilities_over, label_table_over
from pymc_bpls.model.data.labels import UNLABELED
from pymc_bpls.model.data.table import HOW_TO_MARK, Labeled, by_container
from pymc_bpls.model.problem import Problem
from pymc_bpls.montecarlo.references import find_method
from pymc_bpls.rules.label_rules import LabelRule, find_rule
from pymc_bpls.runs.begin import begin
from pymc_bpls.runs.resume import resume
from pymc_bpls.runs.trainee import Trainee
from pymc_bpls.scoring.by_ep_and_vi import ERRORS_OF_LEVEL
from pymc_bpls.scoring.candidates import scores_of_candidates
from pymc_bpls.scoring.criteria import Criterion, FitCriterion
from pymc_bpls.scoring.exact import exact_pool, find_exact, warn_if_unreliable
from pymc_bpls.scoring.scorer import Scorer, fit_on, settled
from pymc_bpls.scoring.settings import Settings, find_settings, read_name
from pymc_bpls.selftraining.planning import read_test
from pymc_bpls.selftraining.resuming import Again
from pymc_bpls.selftraining.stop_rules import Stop
from pymc_bpls.selftraining.train import Train
from pymc_bpls.text.provenance import made_with
from pymc_bpls.text.summary import Summary
from pymc_bpls.trained.labels import label_table
from pymc_bpls.trained.probabilities import class_probabilities, most_probable
from pymc_bpls.trained.result import Trained, read_each, read_trained


def _named_alone(cls: type[PseudoLabelSelector]) -> type[PseudoLabelSelector]:
    """With public methods that Python's errors name without this class, which users know as `BPLS` or `ModelSet`."""
    for name, method in vars(cls).items():
        if isinstance(method, FunctionType) and not name.startswith("_"):
            method.__qualname__ = name
    return cls


@_named_alone
class PseudoLabelSelector(ABC):
    """Selects pseudo-labels by a scorer; `BPLS` does for one model, `ModelSet` for several."""

    _scorer: Scorer
    _problem: Problem
    _lazy: LazyPool | None = None
    #: Whether somebody looked for candidates that no labeled row covers.
    _looked_at_pool: bool = False
    #: What `audit` compares by default.
    _audited: ClassVar[tuple[str, ...]] = AUDITED
    #: Whether exact values are compared by their level, which takes the constants of every run.
    _by_level: ClassVar[bool] = False

    @property
    @abstractmethod
    def _summary(self) -> Summary:
        """What it is, in a few sentences and a table."""

    @abstractmethod
    def _look_for_modes(self, wanted: bool, make_fit: Callable[[], Any]) -> str:
        """What is known of other modes than that of the fit on D; a search, once, warns where they hold mass."""

    @property
    def _several_modes(self) -> bool:
        """Whether several modes of the posterior are known, so that no error of the level that scores share is."""
        return False

    @abstractmethod
    def _judge_modes(self, scorer: Any, settings: Settings, fit: Any, scores: np.ndarray) -> None:
        """Warns where scores of candidates are not those over all modes that are known."""

    @property
    def _trainee(self) -> Trainee:
        """What runs train."""
        return Trainee(self._scorer, lambda history: self._problem.density.parameters, self._lazy)

    @property
    def scorer(self) -> Scorer:
        """What fits, predicts and scores, for any D: for studies that compose runs of their own."""
        return self._scorer

    @property
    def labeled(self) -> Labeled:
        """D: the labeled rows by position, with their class codes and weights of 1."""
        return self._problem.labeled

    def __repr__(self) -> str:
        return self._summary.sentences[0]

    def _repr_html_(self) -> str:
        return self._summary._repr_html_()

    @property
    def compilations(self) -> xr.Dataset:
        """What was compiled so far and for how many seconds; models of one structure share what was compiled before."""
        log = [entry for compiler in self._scorer.compilers for entry in compiler.log]
        return xr.Dataset(
            {
                "name": ("compilation", [entry.name for entry in log]),
                "seconds": ("compilation", [entry.seconds for entry in log]),
            }
        )

    def predict_proba(self, rows: Any = None, *, result: Any = None, by: str | None = None) -> xr.DataArray:
        """Class probabilities of any rows, by the model that was fitted to the labeled rows or trained by a run.

        Parameters
        ----------
        rows : array_like or mapping, optional
            Row positions, a mask, or names of the index (a pandas Index always is names); all rows by default. A mapping or a
            DataFrame as for `pool` gives new rows of the model's `pm.Data`. Of a lazy pool rows are fetched by their positions,
            those of `candidate` in scores; the declared rows by default.
        result : optional
            What was trained: what `self_train`, `resume`, `sample` or `marginalize` returned, read back from a file too; of
            replicates, the mean over all. By default the labeled rows alone.
        by : {"mode", "gaussian", "draws"}, optional
            At the mode; averaged over an approximation of the posterior; or averaged over the draws of a sample. The
            approximation is that of the run's criterion. Without one, or where "auto" scored by Laplace's method, it is "ep"
            where the model admits it, else "vi". By default over the draws where `result` holds some (of `sample` or
            `marginalize`), else as the run's `predictor` says, and without a run that of `BPLS`; attrs say how (`predicted`).
            Two approximations differ in how sure they are: what a run gains in log score is its difference to a run of
            `rounds=0`.

        Returns
        -------
        xarray.DataArray, shape (row, class)

        Raises
        ------
        CriterionError
            `by` is unknown or needs draws, or the result is none of this table and model.

        See Also
        --------
        predict : the most probable classes.
        labels : the class of every row of the table, and where it came from.

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> with pm.Model() as model:
        ...     x = pm.Data("x", np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0]))
        ...     label = pm.Bernoulli("label", logit_p=pm.Normal("slope", 0, 1) * x, observed=[0, 0, 1, 1, -1, -1])
        >>> pls = bpls.BPLS(model)
        >>> run = pls.self_train(rounds=1, progressbar=False)
        >>> pls.predict_proba({"x": [0.5, -4.0]}, result=run).sel({"class": 1}).values.round(2)
        array([0.64, 0.05])
        """
        rows = by_container(rows, self._problem.model, "rows")
        with working("probabilities", False):
            if self._lazy is not None:
                return class_probabilities_over(self._lazy, self._scorer, self._trained(result), rows, by)
            each = read_each(result, self._problem) if result is not None else [self._trained(None)]
            return class_probabilities(self._scorer, each, rows, by)

    def predict(self, rows: Any = None, *, result: Any = None, by: str | None = None) -> xr.DataArray:
        """The most probable class of any rows.

        Parameters
        ----------
        rows, result, by
            As in `predict_proba`: by default all rows, by the model of the labeled rows alone.

        Returns
        -------
        xarray.DataArray, shape (row,)

        Raises
        ------
        RowError
            A row has no class probabilities.
        """
        return most_probable(self.predict_proba(rows, result=result, by=by))

    def labels(self, result: Any = None) -> pd.DataFrame:
        """The class of every row of the table, its probability, and where it came from.

        Parameters
        ----------
        result : optional
            As in `predict_proba`.

        Returns
        -------
        pandas.DataFrame
            By the user's index (of a lazy pool by position: the declared rows, and those that the run added): `class`, the
            label or pseudo-label of rows of D and of labeled rows that were set aside, the most probable class of others;
            `probability`, that of this class under the model; `origin`, "labeled", "pseudo-labeled", "unlabeled" (a candidate
            that was left), "set aside" (by a stop rule) or "held out"; and `round`, in which the row got its pseudo-label.
        """
        with working("labels", False):
            if self._lazy is not None:
                return label_table_over(self._lazy, self._scorer, self._trained(result))
            return label_table(self._scorer, self._trained(result))

    def _trained(self, result: Any) -> Trained:
        """What a result was trained on; of the labeled rows alone nobody has looked for other modes before."""
        trained = read_trained(result, self._problem)
        return trained if result is not None else replace(trained, look=self._look_from)

    def _look_from(self, fit: Any) -> str:
        """What is known of other modes than that of a fit on D, as predictions look for them."""
        return self._look_for_modes(True, lambda: fit)

    def score(
        self,
        criterion: str | Criterion | FitCriterion = "ppp",
        *,
        approximation: str = "auto",
        expansion: str = "map",
        labels: str | LabelRule = "predicted",
        candidate: str = "conditional",
        random_seed: int | np.random.Generator | None = None,
        chunk_bytes: int | None = None,
        top: int | None = None,
        to: str | Path | None = None,
        executor: Executor | None = None,
        other_modes: bool = True,
        progressbar: bool = True,
    ) -> xr.Dataset:
        """Score every candidate: by one Gaussian fit for the whole pool, or each with a refit of its own.

        Parameters
        ----------
        criterion : str, Criterion or FitCriterion, default "ppp"
            "ppp", "ibpls", "ubpls", "marginal_likelihood", "reference", "likelihood", "probability", "variance",
            "predictive", "entropy", "bald" or "random" (see the guide's table), or a criterion of one's own. "ppp[ep]",
            "ppp[vi]", "ppp[laplace]" and "ppp[mle]" name the approximation or expansion, too. "probability" is at the mode,
            whatever the `predictor` of `BPLS` is.
        approximation : {"auto", "laplace", "ep", "vi"}, default "auto"
            Laplace's method with a refit of every candidate, or one Gaussian fit that scores the whole pool ("ppp",
            "marginal_likelihood" and "predictive"): expectation propagation (rows with one linear predictor, Gaussian priors
            or independent ones of single coefficients) or variational inference (any model). "auto" takes "ep" where the model
            admits it, elsewhere "vi" while D has fewer than five rows a parameter, and "laplace" from there on; for all other
            criteria it is "laplace". Where what it takes does not settle, the next one stands in, with a warning; attrs name
            what was taken (`approximation`), and what it stands in for (`instead_of`). By "ep" and "vi" the score is the
            absolute value itself, comparable with `log_ppp` (or `log_evidence`) by Laplace's method; under an improper prior
            it is log E[p(ŷ|x,θ)] alone. attrs hold the constant, with "ep" the size of its corrections, which its error does
            not exceed by much unless BPLS warns, with "vi" its k-hat, and its Monte Carlo error where k-hat is small enough to
            know it. Where a log-posterior has a kink, and so no mode to verify, these two predict pseudo-labels at their own
            centre.
        expansion : {"map", "mle"}, default "map"
            Whether the point of expansion maximises the prior too; "mle" is the paper's, for "ppp" and "ibpls".
        labels : {"predicted", "all", "expected", "sampled"} or Hurwicz(alpha), default "predicted"
            Each candidate with its predicted class ("sampled" too, which draws labels in a run only); every class of every
            candidate competing; or one value a candidate, the logarithm of its classes' values combined: their mean by
            predicted probabilities, or `Hurwicz`'s mixture of the largest and the smallest. Terms are then those of each class,
            over `label`.
        candidate : {"conditional", "joint"}, default "conditional"
            What a candidate brings in a class-conditional model, whose labels reach other observed variables: p(ŷ|x,θ), so that
            values are log p(D, ŷ | x, …), or its whole likelihood p(x,ŷ|θ), which puts typical rows first. In a model of y
            given x both are the same. Once chosen, a row joins D with its whole likelihood.
        random_seed : int or numpy Generator, optional
            For `criterion="random"`.
        chunk_bytes : int, optional
            Memory for the refits that are done together, 256 MiB by default.
        top : int, optional
            For lazy pools: the best so many candidates (or pairs with a class, with `labels="all"`) are returned.
        to : str or path, optional
            For lazy pools: where all scores are written, as zarr or parquet by its ending. The same call goes on with what an
            interrupted one left.
        executor : optional
            What runs chunks of refits, or the partitions of a lazy pool: anything with `submit`, as those of
            `concurrent.futures` (processes by "spawn") or a Dask client. By default refits are one chunk after the other, and
            partitions in threads. Numbers are the same.
        other_modes : bool, default True
            Whether to look for other modes of the posterior, once a model, and warn where they hold mass. That costs no more
            than the fit of D, or a second, and nothing where the log-posterior is concave; attrs say what was found.
        progressbar : bool, default True
            Whether a line says what is going on, where that takes more than three seconds.

        Returns
        -------
        xarray.Dataset
            Of a lazy pool the best over `candidate`, or all of the store, lazily, with `rows_by_label` over `class` and the
            `histogram` of all scores over `bin`; attrs count rows without a score and name the first. Else over
            `candidate` (row position; and `label` with `labels="all"`): `score`, `pseudo_label`; for refitted
            criteria their terms and `converged`; under proper priors `log_ppp` (k = 2) or `log_evidence` (k = 1), and with
            `labels="all"` the `class_sum_error` of log PPP: log Σ_y PPP(i, y) minus log Z_2/Z_1, both by Laplace's method. It
            is 0 for the exact values, since p(y|x,θ) adds up to 1 over the classes (p(x,y|θ) does not, and there is none under
            candidate="joint"); a large one says that Laplace's method is off, a small one proves little. Where scores are
            averages over draws ("predictive", "entropy", "bald", and "vi" of rows with several linear predictors), attrs hold
            the largest standard error of one, `score_error`; of "ppp" by Laplace's method with one class a row `own_error`, how
            far a difference is off by the class sums of the best rows. `space` says in which coordinates fits and refits were
            made: those of the labeled "rows", where these are fewer than parameters with Gaussian or flat priors, or all
            "parameters". Values are the same, and time does not grow with the number of features.

        Raises
        ------
        CriterionError
            The criterion is unknown or not defined for this model.
        ModeError
            D has no mode under this criterion, for instance without the prior where rows are separated.

        See Also
        --------
        self_train : adds the best, and again.
        exact : the exact values of "ppp" and "marginal_likelihood".
        audit : how far scores are from these.

        References
        ----------
        .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
           pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883
        .. [2] Tierney, L. and Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal densities. JASA
           81, 82-86. https://doi.org/10.1080/01621459.1986.10478240
        .. [3] Minka, T. P. (2001). Expectation propagation for approximate Bayesian inference. UAI 2001, 362-369.
           https://doi.org/10.48550/arXiv.1301.2294
        .. [4] Opper, M. and Archambeau, C. (2009). The variational Gaussian approximation revisited. Neural Computation 21,
           786-792. https://doi.org/10.1162/neco.2008.08-07-592
        """
        check(chunk_bytes=chunk_bytes, random_seed=random_seed, candidate=candidate, other_modes=other_modes, executor=executor)
        if top is not None:
            check(top=top)
        criterion, approximation, expansion = read_name(criterion, approximation, expansion)
        made = made_with(random_seed)
        asked = replace(find_settings(criterion, approximation, expansion, labels, random_seed), told=True)
        scorer = self._scorer.with_factor(candidate)
        settings = settled(scorer, asked, self._problem.labeled)
        if self._lazy is None and (top is not None or to is not None):
            raise CriterionError("top= and to= are for lazy pools. All scores are in the Dataset that score() returns.")
        told = {"criterion": settings.criterion.name, "expansion": expansion, "labels": settings.rule.name}

        def say(attrs: dict[str, Any], fit: Any) -> dict[str, Any]:
            modes = self._look_for_modes(other_modes, lambda: fit)
            known = {name: value for name, value in attrs.items() if not (self._several_modes and name in ERRORS_OF_LEVEL)}
            how = {"predicted": scorer.how_it_predicted(fit), "candidate": candidate, "other_modes": modes}
            return {**known, **told, **how, **made}

        with working(f"score by {settings.criterion.name}", progressbar):
            if self._lazy is not None:
                return scores_of_pool(self._lazy, scorer, settings, say, top=top, to=to, executor=executor)
            scores, fit = scores_of_candidates(scorer, settings, chunk_bytes=chunk_bytes, executor=executor)
            scores.attrs = say(scores.attrs, fit)
            if other_modes:
                self._judge_modes(scorer, settings, fit, scores["score"].to_numpy())
        return scores

    def self_train(
        self,
        criterion: str | Criterion | FitCriterion = "ppp",
        *,
        approximation: str = "auto",
        expansion: str = "map",
        labels: str | LabelRule = "predicted",
        candidate: str = "conditional",
        rounds: int | None = None,
        batch_size: int = 1,
        stop: Stop | list[Stop] | None = None,
        class_balance: Any = None,
        pseudo_weight: float | Callable[[float], float] = 1.0,
        test: Any = None,
        replicates: int | None = None,
        choose: bool | Mapping[str, Any] | None = None,
        executor: Executor | None = None,
        random_seed: int | np.random.Generator | None = None,
        other_modes: bool = True,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """Add the best candidate with its pseudo-label, refit, and again (Algorithm 1).

        Candidates whose features the labeled rows do not cover, as rows of a class that no label has, are warned of beforehand,
        once a model. Pseudo-labels are predicted anew in every round; where rows depend on each other every round compiles
        too. A mode that is lost in a later round, or Ctrl-C, ends the run; what was done until then is returned.

        Parameters
        ----------
        criterion, approximation, expansion, labels, candidate
            As in `score`; "auto" is settled by the labels that the run begins with, and where another one stands in, the
            history's `approximation` says in which rounds. With "ep" or "vi" scores lack the constant that the candidates of a
            round share. With `labels="sampled"` a row is chosen as with its predicted class, and gets one that is drawn from
            the posterior predictive (over the Gaussian of `approximation`).
        rounds : int, optional
            How many rounds; until the pool is empty by default.
        batch_size : int, default 1
            How many to add after one scoring. The best of one scoring are often near-duplicates of each other.
        stop : callable or list of callables, optional
            `MaxRounds`, `Threshold`, `NoGain`, `EvidenceDrop`, a `StopRule` or callables of one's own: each takes the history
            so far (a Dataset: `/history`, and `/curve` without the test rows) and returns a reason to stop, or None.
        class_balance : "labeled" or mapping of class to share, optional
            Force these shares on the pseudo-labels, which add up to 1 (0 of classes left out), or those of the labeled rows.
        pseudo_weight : float or callable, default 1
            Weight of a pseudo-labeled row once it is in D, or a function of the score that it was chosen by (a log value under
            most criteria, a probability under "probability"); it is scored at weight 1.
        test : tuple, optional
            (rows, true labels) of rows of the table, by position, a mask or names of the index, never candidates in this run;
            or (mapping as for `pool`, true labels).
        replicates : int, optional
            For labels that are drawn: so many runs, each with its own stream of `random_seed`.
        choose : bool or mapping, optional
            True returns this run only where `BPLS.choose` finds that labeled rows prove it better than the supervised model,
            which is returned otherwise, as a run without rounds. A mapping of further pipelines, as `BPLS.choose` takes them,
            competes too, and what is chosen is returned. attrs say which (`choice`) and why (`choice_verdict`).
        executor : optional
            As in `score`; over a lazy pool a round is a pass.
        random_seed : int or numpy Generator, optional
            For `criterion="random"`, labels that are drawn, and rows that a stop rule draws to hold them out.
        other_modes : bool, default True
            As in `score`.
        progressbar : bool, default True

        Returns
        -------
        xarray.DataTree
            `/history` over `step`, `/curve` over `n_pseudo` (0 is the supervised baseline): `accuracy` and `log_score` of test
            rows and how many of them are `won` and `lost` against the baseline, `invented_information` (nats: KL(q ‖ q_0) of
            Laplace's Gaussians on D and on the labels alone), `log_evidence` log p(D) under proper priors,
            `weight` (the sum of D's weights), `held_out_log_score` where a stop rule holds rows out; `/final` (the last mode)
            and `/unconstrained` (the same in θ), `/labeled` (rows of D with their labels and weights), `/test`, `/held_out`
            (labeled rows held out), `/state` (for `resume`); attrs `stop_reason`, its code `stop_kind` ("pool", "rounds",
            "rule", "scores", "refused", "interrupted" or "failed"), `stop_rule` where one ended it, `verdict` and the settings.
            `save(run, path)` writes all of it, never half of it, and `xarray.open_datatree(path)` reads it. With
            `replicates`, `/replicates/1`, … are runs, and `/mixture` has mean and covariance of the mixture of their
            posteriors beside the supervised one, with Monte Carlo errors. `read_index` gives the user's index of `/history`,
            `/labeled`, `/test` and `/held_out`; frames are of Datasets, as `run["history"].to_dataset().to_dataframe()`.

        See Also
        --------
        resume : goes on with a run.
        choose : this run, another way, or the supervised model, as labeled rows prove.
        audit_along : compares its choices with exact ones.
        plot_self_training, summary : show it.

        References
        ----------
        .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
           pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883
        .. [2] McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions or percentages.
           Psychometrika 12, 153-157. https://doi.org/10.1007/BF02295996
        .. [3] Fong, E., Holmes, C. and Walker, S. G. (2023). Martingale posterior distributions. JRSS B 85, 1357-1391.
           https://doi.org/10.1093/jrsssb/qkad005
        """
        check(random_seed=random_seed, candidate=candidate, other_modes=other_modes, executor=executor)
        train = Train(
            criterion,
            approximation=approximation,
            expansion=expansion,
            labels=labels,
            candidate=candidate,
            rounds=rounds,
            batch_size=batch_size,
            stop=stop,
            class_balance=class_balance,
            pseudo_weight=pseudo_weight,
            replicates=replicates,
            other_modes=other_modes,
        )
        if choose is None or choose is False:
            return self.run(train, test=test, executor=executor, random_seed=random_seed, progressbar=progressbar)
        options: dict[str, Any] = {"test": test, "executor": executor, "random_seed": random_seed}
        return self.choose(beside(train, choose), **options, progressbar=progressbar).noted

    def run(
        self,
        train: Train,
        *,
        test: Any = None,
        executor: Executor | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """A run of self-training that one object describes, as `self_train` makes it of its arguments."""
        if not isinstance(train, Train):
            raise CriterionError(f"train= is a {type(train).__name__}, which describes no run. Give bpls.Train(criterion, …).")
        made = made_with(random_seed)
        begun = begin(self._trainee, train, test=test, executor=executor, random_seed=random_seed)
        self._warn_of_strangers(begun.candidates)
        with working("self-training", progressbar):
            modes = self._look_for_modes(train.other_modes, lambda: fit_on(self._scorer, begun.settings, self._problem.labeled))
        return begun.noting(other_modes=modes, **made).go(progressbar)

    def resume(
        self,
        run: xr.DataTree,
        *,
        criterion: Criterion | FitCriterion | None = None,
        labels: LabelRule | None = None,
        pseudo_weight: Callable[[float], float] | None = None,
        rounds: int | None = None,
        stop: Stop | list[Stop] | None = None,
        test: Any = None,
        executor: Executor | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """Go on with a run of `self_train`, with its settings: after a stop rule, an interruption or `rounds`.

        It goes on as if it had not ended: where a run was cut makes no difference to its choices and scores.

        Parameters
        ----------
        run : xarray.DataTree
            What `self_train` or `resume` returned, or what `xarray.open_datatree` read from a file of it.
        criterion : Criterion or FitCriterion, optional
            Needed where the run used a criterion of one's own.
        labels : LabelRule, optional
            Needed where the run used a label rule of one's own.
        pseudo_weight : callable, optional
            Needed where the run weighted pseudo-labels by a function.
        rounds : int, optional
            How many more rounds; until the pool is empty by default.
        stop : callable or list of callables, optional
            As in `self_train`. Rules are not kept: give them again. The rows that one of them held out are.
        test : tuple, optional
            Test rows of the table are kept; new rows have to be given again.
        executor : optional
            As in `self_train`.
        random_seed : int or numpy Generator, optional
            By default random numbers go on where the run left them.
        progressbar : bool, default True

        Returns
        -------
        xarray.DataTree
            The whole run, from its first pseudo-label on.

        Raises
        ------
        CriterionError
            The run is none of this table and model, or what it does not keep is not given again.

        See Also
        --------
        self_train : begins a run.

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> X = np.column_stack([np.ones(24), np.linspace(-2, 2, 24)])
        >>> y = np.where(np.arange(24) % 2, -1, X[:, 1] + np.tile([0.9, -0.9], 12) > 0)
        >>> with pm.Model() as model:
        ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
        >>> pls = bpls.BPLS(model)
        >>> run = pls.self_train("probability", rounds=2, progressbar=False)
        >>> longer = pls.resume(run, stop=bpls.MaxRounds(5), progressbar=False)
        >>> longer.attrs["stop_reason"], longer["history"].sizes["step"]
        ('MaxRounds: 5 rounds are done', 5)
        """
        check(random_seed=random_seed, executor=executor)
        again, made = Again(criterion, labels, pseudo_weight, rounds, stop, test), made_with(random_seed)
        if random_seed is None:
            del made["random_seed"]  # that of the start goes on
        return resume(self._trainee, run, again, executor, random_seed).noting(**made).go(progressbar)

    def exact(
        self,
        criterion: str = "ppp",
        *,
        labels: str | LabelRule = "predicted",
        candidate: str = "conditional",
        method: str = "nuts",
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        nuts_sampler: str | None = None,
        absolute: bool = True,
        executor: Executor | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
        **sample_kwargs: Any,
    ) -> xr.DataTree:
        """The exact criterion of every candidate, from one run on p(D | θ)^k π(θ) (Theorem 2: k = 2, Theorem 1: k = 1).

        Parameters
        ----------
        criterion : {"ppp", "marginal_likelihood"}
        labels : {"predicted", "all", "expected"} or Hurwicz(alpha), default "predicted"
        candidate : {"conditional", "joint"}, default "conditional"
            As in `score`.
        method : {"nuts", "psis"}, default "nuts"
            NUTS through `pm.sample`, or Pareto-smoothed importance sampling (`chains · draws` of them) from t distributions
            around EP's, the variational or Laplace's Gaussian, and from their mixture where none will do; where the weights may
            have no variance, the draws are moved by Hamiltonian transitions and constants bridged. Seconds instead of a
            minute, and its k-hat says when to trust it.
        draws, tune, chains, nuts_sampler, **sample_kwargs
            As in `pm.sample`. Where draws diverge and no `target_accept` (nor `nuts` or `step`) is given, they are drawn again
            with `target_accept=0.95`, and are not called reliable where they diverge even so.
        absolute : bool, default True
            Also log Z_2 − log Z_1 (or log Z_1), which takes a second run on the ordinary posterior for "ppp".
        executor : optional
            What runs the averages over draws, some candidates at a time, as in `score`.
        random_seed : int or numpy Generator, optional
        progressbar : bool, default True
            As in `score`; it takes the place of the sampler's own.

        Returns
        -------
        xarray.DataTree
            `/exact` over `candidate` (and `label`): `log_predictive` (log E[p(ŷ|x,θ)], the exact ranking) with its error and
            `ess`, `diff_to_best` with `diff_to_best_mcse` (paired), `prob_best` given the Monte Carlo error, `pareto_k` of what
            is averaged, and with `absolute` `log_ppp` or `log_evidence`. `mcse` is the standard error of the absolute value
            (its average's and its constant's together) where there is one, and `log_predictive_mcse` that of the average then;
            else `mcse` is that of `log_predictive`. A class in the tail of the posterior, where no draw comes, is sampled by
            itself (64 values at most, those with the largest k-hat). `/posterior` and `/sample_stats` of a NUTS
            run: of "ppp" it is that of the doubled likelihood, p(D | θ)² π(θ), as its attrs say, and `sample` has the model's
            own. attrs: `reliable` (0 or 1), `reasons` in words, `log_normalizer` and its error.

        Raises
        ------
        CriterionError
            The criterion or the method is unknown.
        BPLSError
            The sampler failed; its own words are passed on.

        See Also
        --------
        score : approximations of the same values.
        audit : compares them.
        BPLS.sample : the posterior of the labeled rows, or of a run.

        References
        ----------
        .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
           pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883
        .. [2] Hoffman, M. D. and Gelman, A. (2014). The No-U-Turn sampler. JMLR 15, 1593-1623.
           https://doi.org/10.48550/arXiv.1111.4246
        .. [3] Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance sampling. JMLR
           25(72), 1-58. https://doi.org/10.48550/arXiv.1507.02646
        .. [4] Gronau, Q. F. et al. (2017). A tutorial on bridge sampling. Journal of Mathematical Psychology 81, 80-97.
           https://doi.org/10.1016/j.jmp.2017.09.005
        """
        check(random_seed=random_seed, candidate=candidate, executor=executor)
        size: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "nuts_sampler": nuts_sampler}
        made = made_with(random_seed, method=method, **size, **sample_kwargs)
        chosen, scorer = find_exact(criterion), self._scorer.with_factor(candidate).with_executor(executor)
        rng = np.random.default_rng(random_seed)
        by = find_method(method, draws, tune, chains, nuts_sampler, absolute, rng, **sample_kwargs)
        self._needs_candidates()
        with working(f"exact {chosen.name}", progressbar):
            tree = exact_pool(scorer, chosen, find_rule(labels), by, rng)
        tree.attrs.update(candidate=candidate, **made)
        return warn_if_unreliable(tree)

    def audit(
        self,
        criteria: Sequence[str | Criterion | FitCriterion] | None = None,
        exact: Any = None,
        *,
        labels: str | LabelRule = "predicted",
        candidate: str = "conditional",
        top: int = 5,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
        **exact_kwargs: Any,
    ) -> Audit:
        """Compare criteria with the exact log PPP: which of them choose well for this model and these data.

        Parameters
        ----------
        criteria : sequence of str, Criterion or FitCriterion, optional
            Names as in `score`, with "[ep]", "[vi]" or "[mle]" for another approximation or expansion ("ppp[ep]"). All by
            default; those that are not defined for the model are left out, with the reason in `refused`.
        exact : optional
            The exact values: what `exact("ppp")` returned; a Dataset with `log_ppp`, and `mcse` and `pseudo_label` where
            there are any; or an array of known log PPP in the order of the candidates. By default `exact` is run.
        labels : {"predicted", "all", "expected"} or Hurwicz(alpha), default "predicted"
            As in `score`; where `exact` says whose values it holds, its classes are taken, and a rule of one's own is given
            again.
        candidate : {"conditional", "joint"}, default "conditional"
            As in `score`; where `exact` is a run, what it was made with is taken.
        top : int, default 5
            How many of the best are compared as a set.
        random_seed : int or numpy Generator, optional
        progressbar : bool, default True
            As in `exact`.
        **exact_kwargs
            As in `exact`: `method`, `draws`, `tune`, `chains`, `nuts_sampler`, …

        Returns
        -------
        Audit
            `print` it for the verdict, a table and a sentence a criterion.

        Raises
        ------
        CriterionError
            A criterion is unknown, or `exact=` does not fit the candidates.

        See Also
        --------
        audit_along : the same along a run.
        plot_audit : draws it.

        References
        ----------
        .. [1] Kendall, M. G. (1938). A new measure of rank correlation. Biometrika 30, 81-93.
           https://doi.org/10.1093/biomet/30.1-2.81
        .. [2] Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance sampling. JMLR
           25(72), 1-58. https://doi.org/10.48550/arXiv.1507.02646
        """
        forms = read_forms(self._audited if criteria is None else criteria)
        if exact is not None and exact_kwargs:
            raise CriterionError(f"exact= is given, and so is {', '.join(exact_kwargs)}=. Leave one of them out.")
        check(top=top, random_seed=random_seed, candidate=candidate)
        self._needs_candidates()
        made = made_with(random_seed, **({"method": "nuts"} | exact_kwargs)) | sampler_of(exact)
        scorer = self._scorer.with_factor(candidate_of(exact, candidate))
        with working("audit", progressbar):
            audit = audit_pool(scorer, forms, exact, labels, top, np.random.default_rng(random_seed), exact_kwargs)
        audit.tree.attrs.update(made)
        return audit

    def audit_along(
        self,
        run: xr.DataTree,
        *,
        every: int = 10,
        criteria: Sequence[str | Criterion | FitCriterion] = ALONG,
        labels: LabelRule | None = None,
        method: str = "psis, else nuts",
        draws: int = 1000,
        tune: int = 1000,
        chains: int = 4,
        nuts_sampler: str | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
    ) -> AuditAlong:
        """Audit a run of `self_train` at every so many rounds, and run it again with exact selection.

        Ctrl-C returns what was audited until then.

        Parameters
        ----------
        run : xarray.DataTree
            What `self_train` or `resume` returned.
        every : int, default 10
            How many rounds from one audit to the next; the last round that had a choice is audited too.
        criteria : sequence of str, Criterion or FitCriterion, optional
            As in `audit`; by default "ppp" by Laplace, EP and VI, and "ibpls". The run's own choices are judged anyway.
        labels : LabelRule, optional
            Needed where the run used a label rule of one's own.
        method : {"psis, else nuts", "psis", "nuts"}, default "psis, else nuts"
            How exact values are found: by importance sampling, and by NUTS where that is not to be trusted, or by one of them.
        draws, tune, chains, nuts_sampler
            As in `exact`.
        random_seed : int or numpy Generator, optional
        progressbar : bool, default True

        Returns
        -------
        AuditAlong
            `print` it: which criteria can be used, does Laplace's approximation get better as D grows, does regret add up,
            would exact selection have ended with another model?

        Raises
        ------
        CriterionError
            The run is not one of this model's table, or has no round to audit.

        See Also
        --------
        audit : at one D.
        plot_agreement : draws it.
        """
        forms = read_forms(criteria)
        check(every=every, random_seed=random_seed)
        size: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "nuts_sampler": nuts_sampler}
        made, rng = made_with(random_seed, method=method, **size), np.random.default_rng(random_seed)
        by = find_method(method, absolute=self._by_level, rng=rng, **size)
        seed = int(rng.integers(2**31))
        track = read_track(run, self._scorer, labels, seed)
        along = audit_track(track, forms, by, every, seed, progressbar)
        along.tree.attrs.update(made)
        return along

    def choose(
        self,
        pipelines: Mapping[str, Any] | None = None,
        *,
        loss: str | Callable[[xr.DataArray, np.ndarray], Any] = "log",
        folds: int = 5,
        repeats: int = 4,
        alpha: float = 0.1,
        guarantee: str = "bound",
        groups: Any = None,
        test: Any = None,
        executor: Executor | None = None,
        random_seed: int | np.random.Generator | None = None,
        progressbar: bool = True,
    ) -> Choice:
        """Which pipeline to use: the supervised model, unless labeled rows that were set aside prove another one better.

        Each pipeline is done again without the labels of a fold, whose rows then judge it beside the supervised model. The
        rows of a fold are no candidates meanwhile. Ctrl-C leaves the decision to the folds that are done.

        Parameters
        ----------
        pipelines : mapping of str to Train, Marginalize or callable, optional
            Whole ways to a model. A callable takes (labels, random_seed), labels a Series over the user's index with None where
            there is none, and returns class probabilities of all rows, a DataArray (row, class). By default PPP until `NoGain`
            and to the end of the pool, "probability", and where the model is class-conditional `Marginalize` at 0.1 and 1.
            One that is refused, or a callable that raises, in any fold is never chosen, and the result says why.
        loss : {"log", "brier", "zero_one"} or callable, default "log"
            By which predictions are judged: what you care about. A callable takes probabilities (row, class) and the true
            classes, and returns a loss a row: a number, or ∞, of which no pipeline is proven better than another.
        folds, repeats : int, default 5 and 4
            So many folds of the labeled rows, stratified by class, dealt so many times. Where rows are fewer there are as many
            folds as rows.
        alpha : float, default 0.1
            Probability of leaving the supervised model for one that is no better, at most.
        guarantee : {"bound", "betting"}, default "bound"
            By a lower bound d̄ − q √((1 + n_test/n_train) V) of the difference, V its variance by rows or by folds, whichever
            bounds lower, the factor for training sets that overlap [1]_, and q the quantile for all pipelines at once, which
            are correlated [2]_: approximate, by normal theory. There is none of fewer than 20 labels, or of fewer than five of
            a class; below ten its worst loss is added twice. More folds and a bounded loss show more. Or exactly,
            whatever the model, by bets on rows in random order, each predicted from rows before it: the e-value has to reach
            the number of pipelines over alpha [3]_. Bets need a loss with a bound and a label of each class. With 30 labels
            they nearly always leave it at the supervised model.
        groups : array_like, shape (rows,), optional
            The group of each row of the table: labeled rows of a group are in one fold, and its unlabeled rows are no
            candidates there.
        test : tuple, optional
            As in `self_train`, for the final fit; test rows are no candidates in any fold.
        executor : optional
            Anything with `submit`, as those of `concurrent.futures` (processes by "spawn") or a Dask client: folds are done
            side by side there, with the same numbers. By default one after the other.
        random_seed : int or numpy Generator, optional
            Of the folds and the pipelines; the final fit takes it as it is.
        progressbar : bool, default True

        Returns
        -------
        Choice
            `print` it: the verdict, and a table of differences with their bounds or e-values. `result` is the chosen pipeline
            on all labels.

        Raises
        ------
        CriterionError
            A pipeline, the loss or the guarantee is none, bets are asked for by a loss without a bound, or the pool is lazy.

        See Also
        --------
        self_train : with `choose=True`, one run or the supervised model.
        compare : differences beyond chance, of which none is chosen.
        plot_choice : draws it.

        References
        ----------
        .. [1] Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.
           https://doi.org/10.1023/A:1024068626366
        .. [2] Dunnett, C. W. (1955). A multiple comparison procedure for comparing several treatments with a control. JASA 50,
           1096-1121. https://doi.org/10.1080/01621459.1955.10501294
        .. [3] Waudby-Smith, I. and Ramdas, A. (2024). Estimating means of bounded random variables by betting. JRSS B 86, 1-27.
           https://doi.org/10.1093/jrsssb/qkad009

        Examples
        --------
        >>> import numpy as np, pymc as pm, pymc_bpls as bpls
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 2))
        >>> y = np.where(np.arange(60) < 30, X[:, 0] + rng.logistic(size=60) > 0, -1)
        >>> with pm.Model() as model:
        ...     label = pm.Bernoulli("label", logit_p=X @ pm.Normal("b", 0, 2.5, shape=2), observed=y)
        >>> pls = bpls.BPLS(model)
        >>> choice = pls.choose({"probability": bpls.Train("probability", rounds=5)}, random_seed=0, progressbar=False)
        >>> choice.name, choice.table.index.tolist()
        ('supervised', ['supervised', 'probability'])
        """
        check(random_seed=random_seed, executor=executor)
        self.needs_rows_in_memory()
        trial = Trial.read(self._problem, loss, folds, repeats, alpha, guarantee, groups)
        named = read_pipelines(pipelines, self)
        _, test_set = read_test(test, self._scorer)
        never = np.empty(0, dtype=int) if test_set is None else test_set.in_table(self._problem)
        self._warn_of_strangers(np.setdiff1d(self._problem.table.candidates, never))
        told, made = {"test": test, "progressbar": progressbar}, made_with(random_seed)
        with working(f"choosing among {len(named) + 1} pipelines", progressbar, folds * repeats) as tell:
            choice = make_choice(
                self, named, trial, never=never, random_seed=random_seed, executor=executor, told=told, tell=tell
            )
        choice.losses.attrs.update(made)
        return choice

    @property
    def problem(self) -> Problem:
        """The declared model on its table, of a set its first member's."""
        return self._problem

    def hiding(self, rows: Any) -> Self:
        """The same model, to which rows are neither labeled nor candidates: as if nobody had labeled them.

        Parameters
        ----------
        rows : array_like
            Row positions, a mask, or names of the index.

        Returns
        -------
        BPLS or ModelSet
            It shares what was compiled.
        """
        table, rows = self._problem.table, self._problem.positions(rows, "rows=")
        codes = table.codes.copy()
        codes[rows] = UNLABELED
        hiding = copy(self)
        hiding._scorer = self._scorer.with_table(replace(table.without(rows), codes=codes))
        hiding._problem = hiding._scorer.problem
        return hiding

    def needs_rows_in_memory(self) -> None:
        """Refuse a lazy pool, where all of its rows are needed at once."""
        if self._lazy is not None:
            raise CriterionError(
                "The pool is lazy, and this needs all of its rows at once. Take the best rows by score(top=...), and give them "
                "as the pool of another BPLS."
            )

    def _needs_candidates(self) -> None:
        self.needs_rows_in_memory()
        if not len(self._problem.table.candidates):
            raise RowError(f'"{self._problem.name}" has no candidate. {HOW_TO_MARK}')

    def _warn_of_strangers(self, candidates: np.ndarray) -> None:
        """Warn of candidates whose features no labeled row covers, once: folds of a choice have looked before."""
        if self._looked_at_pool or self._lazy is not None:
            return
        self._looked_at_pool = True
        warn_of_strangers(self._problem, candidates)
