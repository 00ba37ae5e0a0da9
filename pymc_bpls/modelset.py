"""Several models on one table, or several priors of one model, that select together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from pymc_bpls.bpls import BPLS
from pymc_bpls.compute.work import working
from pymc_bpls.engine.laplace_fit import LaplaceFit
from pymc_bpls.errors import BPLSWarning, CriterionError, ModelError
from pymc_bpls.model.density import Parameters
from pymc_bpls.model.problem import Problem
from pymc_bpls.rules.model_rules import GammaMaximin, ModelRule
from pymc_bpls.runs.trainee import Trainee
from pymc_bpls.scoring.fitted import ModelFit, SetFit
from pymc_bpls.scoring.members import BEST, SetScorer, in_the_name_of
from pymc_bpls.scoring.settings import Settings
from pymc_bpls.selector import PseudoLabelSelector
from pymc_bpls.selftraining.history import History
from pymc_bpls.selftraining.saved_run import RunMembers
from pymc_bpls.text.summary import Summary


class ModelSet(PseudoLabelSelector):
    """Models on the same table, or priors of one model, that select pseudo-labels together (Supplement E).

    `score`, `self_train`, `choose`, `resume`, `exact`, `audit` and `audit_along` are those of `BPLS`, on absolute values:
    `criterion` is "ppp" or "marginal_likelihood". Label rules apply within each member, the model rule to what they give.
    Pseudo-labels and predictions come from one member. Scores hold each member's values over `member`, so that a frame of them
    has a row for each member: `scores.drop_dims("member").to_dataframe()` has one for each candidate.

    Parameters
    ----------
    models : sequence, or mapping of str
        Models, `BPLS` objects, or what `prior_set` returned, by name where they have one. All declare the same table: the same
        labels, candidates and classes in the same order. Priors are proper.
    rule : GammaMaximin(), LeastFavorable(), SumRule() or Penalised(weight)
        How the members' values become one.
    predictor : str, default "best"
        The name of the member that predicts, or "best": the one with the largest marginal likelihood of D by Laplace's method,
        which is its log score of the labeled rows one after the other, each predicted from those before it. PyMC's prior of K
        exchangeable cutpoints (`transform=ordered`) lowers it by log K!: name the member where others have no cutpoints.
    **declared
        As in `BPLS`, for all members that are no `BPLS` yet: `target`, `pool`, `unlabeled`, `observed`, `classes`, `index`,
        `initvals`.

    Attributes
    ----------
    members : dict of str to BPLS

    Raises
    ------
    ModelError
        Members differ in their tables, or one of them has an improper prior.

    See Also
    --------
    BPLS : one model.
    prior_set : priors of one model, by the scale or location of one variable.
    GammaMaximin, LeastFavorable, SumRule, Penalised : rules.

    References
    ----------
    .. [1] Rodemann, J., Goschenhofer, J., Dorigatti, E., Nagler, T. and Augustin, T. (2023). Approximately Bayes-optimal
       pseudo-label selection. UAI 2023, PMLR 216, 1762-1773. https://doi.org/10.48550/arXiv.2302.08883

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0, 0.3, 3.0])
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     label = pm.Bernoulli("label", logit_p=slope * x, observed=[0, 0, 1, 1, -1, -1])
    >>> robust = bpls.ModelSet(bpls.prior_set(model, "slope", scale=[0.5, 2]), bpls.GammaMaximin())
    >>> robust.score()["log_ppp_member"].sizes
    Frozen({'member': 2, 'candidate': 2})
    """

    _scorer: SetScorer
    _audited = ("ppp", "ppp[ep]", "ppp[vi]", "marginal_likelihood")
    _by_level = True

    def __init__(self, models: Any, rule: ModelRule | None = None, *, predictor: str = BEST, **declared: Any) -> None:
        rule = GammaMaximin() if rule is None else rule
        models = _named(models)
        if not isinstance(rule, ModelRule):
            raise CriterionError(
                f"rule={rule!r} is no rule. Give GammaMaximin(), LeastFavorable(), SumRule() or Penalised(weight)."
            )
        self.members = _declared(models, declared)
        if any(member._lazy is not None for member in self.members.values()):
            raise CriterionError(
                "A ModelSet compares values of every row by several models, and the pool is lazy. Use one BPLS."
            )
        names = tuple(self.members)
        if predictor not in (BEST, *names):
            raise CriterionError(f'predictor="{predictor}" is no member. Use "best" or one of {", ".join(names)}.')
        _check(self.members, rule)
        self._scorer = SetScorer.of({name: member._scorer for name, member in self.members.items()}, rule, predictor)
        self._problem = self._scorer.problem

    @property
    def _summary(self) -> Summary:
        table, problem, scorer = self._problem.table, self._problem, self._scorer
        predicts = "the member with the largest marginal likelihood" if scorer.predicts == BEST else f'"{scorer.predicts}"'
        sentences = [
            f'ModelSet of "{problem.name}" by {scorer.rule.name}: {len(self.members)} members, {len(table.labeled)} labeled '
            f"rows, {len(table.candidates)} candidates, {len(problem.classes)} classes",
            f"Predictions are those of {predicts}.",
        ]
        return Summary(sentences, pd.DataFrame({"dim θ": scorer.dimension}, index=pd.Index(scorer.names, name="member")))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(BPLS, name):
            raise AttributeError(
                f"A ModelSet has no {name}, which is of one model and not of several. "
                f'Ask a member for it: members["{next(iter(self.members))}"].{name}.'
            )
        raise AttributeError(f"'ModelSet' object has no attribute '{name}'")

    def _look_for_modes(self, wanted: bool, make_fit: Callable[[], SetFit]) -> str:
        fits = cache(lambda: make_fit().members)
        found = [
            f"{name}: {member._look_for_modes(wanted, partial(_take, fits, number))}"
            for number, (name, member) in enumerate(self.members.items())
        ]
        return "; ".join(found)

    def _judge_modes(self, scorer: SetScorer, settings: Settings, fit: SetFit, scores: np.ndarray) -> None:
        """Nothing: a set's scores are none of its members' own."""

    def fit(self, *, other_modes: bool = True, progressbar: bool = True) -> LaplaceFit:
        """The fit of the member that predicts; `members[name].fit()` is that of another.

        Parameters
        ----------
        other_modes, progressbar : bool, default True
            As in `BPLS.fit`.

        Returns
        -------
        LaplaceFit
        """
        with working("fit", progressbar):
            predicts = self._scorer.fit(self._problem.labeled).predicts
            return list(self.members.values())[predicts].fit(other_modes=other_modes)

    @property
    def _trainee(self) -> Trainee:
        members = RunMembers(self._scorer.names, self._scorer.dimension)
        return Trainee(self._scorer, self._parameters_of, model_rule=self._scorer.rule.name, members=members)

    def _parameters_of(self, history: History) -> Parameters:
        """Of the member that predicts last."""
        return list(self.members.values())[history.models[-1]["predictor"]]._problem.density.parameters


def _take(fits: Callable[[], Sequence[ModelFit]], number: int) -> ModelFit:
    return fits()[number]


def _named(models: Any) -> dict[str, Any]:
    """Models by name."""
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
        if len(named) < len(models):
            raise ModelError(
                f"models= has names that are the same as text: {list(models)}. Give each member a name of its own."
            )
    elif isinstance(models, Sequence) and not isinstance(models, str):
        named = {f"model {number}": model for number, model in enumerate(models, 1)}
    else:
        raise ModelError(f"models= is a {type(models).__name__}. Give a list of models, or a mapping from names to them.")
    if not named:
        raise ModelError("models= is empty. Give one model or more.")
    nested = [name for name, model in named.items() if isinstance(model, ModelSet)]
    if nested:
        raise ModelError(f'Member "{nested[0]}" is a set itself. Give its members to one set: {{**inner.members, ...}}.')
    wrong = [name for name in named if "/" in name or name == BEST or not name]
    if wrong:
        raise ModelError(f'A member cannot be called "{wrong[0]}". Give it another name, without "/".')
    return named


def _declared(models: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, BPLS]:
    """Each as a BPLS; what is to be warned of in the table is said of the first."""
    members: dict[str, BPLS] = {}
    if declared and all(isinstance(model, BPLS) for model in models.values()):
        raise ModelError(f"{', '.join(declared)}= is for models, and all members are BPLS objects. Give it to BPLS.")
    for name, model in models.items():
        with in_the_name_of(name), warnings.catch_warnings():
            if members:
                warnings.simplefilter("ignore", BPLSWarning)
            members[name] = model if isinstance(model, BPLS) else BPLS(model, **declared)
    return members


def _check(members: Mapping[str, BPLS], rule: ModelRule) -> None:
    first, *others = members.items()
    shared: list[tuple[str, Callable[[Problem], Any]]] = [
        ("number of rows", lambda problem: len(problem.table.codes)),
        ("labels", lambda problem: problem.table.codes),
        ("candidates", lambda problem: problem.table.candidates),
        ("classes", lambda problem: problem.classes.names),
        ("indices", lambda problem: problem.table.index),
    ]
    if rule.at_mle:
        shared.append(("parameters", lambda problem: np.array(problem.density.parameters.labels)))
    for name, member in others:
        for what, of in shared:
            one, other = of(first[1]._problem), of(member._problem)
            if not (one.equals(other) if isinstance(one, pd.Index) else np.array_equal(one, other)):
                raise ModelError(
                    f'Members "{first[0]}" and "{name}" have different {what}. '
                    + ("Give priors of one model." if what == "parameters" else "Declare all on the same table, in one order.")
                )
    for name, member in members.items():
        if not member._problem.proper:
            raise ModelError(f'Member "{name}" has an improper prior, so that its PPP has no absolute value. Give proper ones.')
