"""Ways to score that an audit compares: a criterion, by which approximation, expanded where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_bpls.errors import CriterionError
from pymc_bpls.scoring.criteria import CRITERIA, Criterion, FitCriterion
from pymc_bpls.scoring.settings import AUTO, LAPLACE, Settings, find_settings

#: What an audit compares by default.
AUDITED = (
    "ppp",
    "ppp[ep]",
    "ppp[vi]",
    "ppp[mle]",
    "ibpls",
    "ibpls[mle]",
    "ubpls",
    "marginal_likelihood",
    "reference",
    "likelihood",
    "probability",
    "predictive",
    "variance",
    "entropy",
)


@dataclass(frozen=True)
class Form:
    """One way to score, under the name that results give it."""

    label: str
    criterion: str | Criterion | FitCriterion
    approximation: str = LAPLACE
    expansion: str = "map"

    def settings(self, rng: np.random.Generator) -> Settings:
        """How to score, for classes that are given."""
        return find_settings(self.criterion, self.approximation, self.expansion, "all", rng)


def read_forms(
    criteria: str | Criterion | FitCriterion | Sequence[str | Criterion | FitCriterion], approximation: str = LAPLACE
) -> list[Form]:
    """Forms as the user names them, one or several, each once; by `approximation` where they name none."""
    if isinstance(criteria, xr.DataTree):
        raise CriterionError(
            "criteria= is a DataTree, and holds no names of criteria. "
            "Audit a run by audit_along(run), and give what exact() returned as exact=."
        )
    if not isinstance(criteria, str | Criterion | FitCriterion | Iterable):
        raise CriterionError(f"criteria= is a {type(criteria).__name__}. Give names of criteria, or Criterion objects.")
    given = [criteria] if isinstance(criteria, str | Criterion | FitCriterion) else list(criteria)
    forms = [read_form(each, approximation) for each in dict.fromkeys(given)]
    labels = [form.label for form in forms]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice or not forms:
        what = f"names {twice} more than once" if twice else "is empty"
        raise CriterionError(f"criteria= {what}. Give each criterion a name of its own.")
    return forms


def read_form(given: str | Criterion | FitCriterion, approximation: str = LAPLACE) -> Form:
    """`"ppp"`, `"ppp[ep]"`, `"ppp[vi]"`, `"ppp[mle]"` or `"ppp[laplace]"`, likewise others, or a criterion of one's own.

    Examples
    --------
    >>> from pymc_bpls.audit.forms import read_form
    >>> read_form("ppp[ep]").approximation, read_form("ibpls[mle]").expansion
    ('ep', 'mle')
    """
    if isinstance(given, Criterion | FitCriterion):
        if CRITERIA.get(given.name, given) is not given:
            raise CriterionError(f'A criterion of your own is named "{given.name}", as a built-in one. Give it another name.')
        return Form(given.name, given, approximation)
    if not isinstance(given, str):
        raise CriterionError(f"criteria= holds a {type(given).__name__}. Give names of criteria, or Criterion objects.")
    given = given.removesuffix("[map]")
    found = re.fullmatch(r"(\w+)\[(\w+)\]", given)
    name, way = found.groups() if found else (given, "map")
    if way == AUTO:
        raise CriterionError(f'"{given}" names no approximation. Use "{name}", "{name}[ep]" or "{name}[vi]".')
    by = {"map": (approximation, "map"), "mle": (LAPLACE, "mle")}
    form = Form(given, name, *by.get(way, (way, "map")))
    form.settings(np.random.default_rng(0))
    return form
