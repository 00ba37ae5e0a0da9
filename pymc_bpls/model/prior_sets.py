"""Sets of priors from one model: the prior of one variable, wider or narrower, moved or not.

With b the variable, c the centre of its prior π, s the factor of its scale and d the shift, the density becomes

    π_{s,d}(b) = π(c + (b − c − d) / s) / s^{dim b},

which for a location-scale family is the family's member with scale s σ and location μ + d. Only that term of log π changes: the
user's model is neither copied nor touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import support_point
from pymc.distributions.transforms import _default_transform
from pymc.distributions.transforms import log as log_transform
from pytensor.graph.basic import Variable

from pymc_bpls.errors import ModelError
from pymc_bpls.model.graphs.slicing import remake
from pymc_bpls.model.refusals import IMPROPER


@dataclass(frozen=True)
class Variant:
    """`model` with the prior of the free variable `name` at `scale` times its scale, moved by `location`."""

    model: pm.Model
    name: str
    scale: float
    location: float

    @property
    def label(self) -> str:
        """What a set calls it."""
        moved = f", location {self.location:+g}" if self.location else ""
        return f"{self.name}: scale × {self.scale:g}{moved}"

    def changed(self, prior_terms: list[Variable]) -> list[Variable]:
        """The terms of log π, of which those of free variables come first, with that of `name` changed."""
        if self.scale == 1 and self.location == 0:
            return prior_terms
        place = [rv.name for rv in self.model.free_RVs].index(self.name)
        rv = self.model[self.name]
        value, term = self.model.rvs_to_values[rv], prior_terms[place]
        [moved] = remake([term], {value: self._standard(rv, value)})
        log_volume = np.log(self.scale) * pt.cast(value.size, "float64") / pt.cast(term.size, "float64")
        jacobian = 0.0 if self.model.rvs_to_transforms[rv] is not None else log_volume
        return [*prior_terms[:place], moved - jacobian, *prior_terms[place + 1 :]]

    def _standard(self, rv: Variable, value: Variable) -> Variable:
        """Where the unchanged density is taken; log b moves by log s, a shift without a Jacobian."""
        if self.model.rvs_to_transforms[rv] is not None:
            return value - np.log(self.scale)
        [centre] = self.model.replace_rvs_by_values([support_point(rv)])
        return centre + (value - self.location - centre) / self.scale


def prior_set(
    model: pm.Model, name: str, *, scale: Sequence[float] = (1.0,), location: Sequence[float] = (0.0,)
) -> dict[str, Variant]:
    """Priors around the one that a model declares, for `ModelSet`: what if my prior were half as sure, or centred elsewhere?

    Parameters
    ----------
    model : pymc.Model
    name : str
        A free variable on the whole real line or on the positive one.
    scale : sequence of float, default (1,)
        Factors of its prior's scale: 2 is half as sure. A positive variable is multiplied by them.
    location : sequence of float, default (0,)
        Shifts of its prior, in the variable's own units; for variables on the real line.

    Returns
    -------
    dict of str to Variant
        Every combination, by name. `ModelSet` and `BPLS` take them in place of a model.

    Raises
    ------
    ModelError
        The variable has no such prior, or a factor is not positive.

    See Also
    --------
    ModelSet : takes them.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_bpls as bpls
    >>> with pm.Model() as model:
    ...     beta = pm.Normal("beta", 0, 2.5)
    ...     label = pm.Bernoulli("label", logit_p=beta * np.arange(4), observed=[0, 1, -1, -1])
    >>> list(bpls.prior_set(model, "beta", scale=[0.5, 1, 2]))
    ['beta: scale × 0.5', 'beta: scale × 1', 'beta: scale × 2']
    """
    scales, shifts = _numbers(scale, "scale"), _numbers(location, "location")
    _check(model, name, shifts)
    if any(factor <= 0 for factor in scales):
        raise ModelError(f"scale={scales} holds a factor that is not positive. Give factors such as 0.5, 1 and 2.")
    variants = [Variant(model, name, factor, shift) for factor, shift in product(scales, shifts)]
    named = {variant.label: variant for variant in variants}
    if len(named) < len(variants):
        raise ModelError(
            f"scale={scales} or location={shifts} holds numbers that six digits cannot tell apart. Space them out."
        )
    return named


def _numbers(given: Any, what: str) -> list[float]:
    try:
        values = np.atleast_1d(np.asarray(given))
    except ValueError:
        values = np.empty((0, 0))
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise ModelError(f"{what}={given!r} is no list of finite numbers. Give one or more plain numbers.")
    if len(set(values.tolist())) < len(values):
        raise ModelError(f"{what}={given!r} holds a number twice. Give each once.")
    return [float(value) for value in values]


def _check(model: pm.Model, name: str, shifts: list[float]) -> None:
    """The variable has a proper prior that can be scaled, and moved where that is asked for."""
    if not isinstance(model, pm.Model):
        raise ModelError(f"model= is a {type(model).__name__}. Give the pymc.Model whose prior is to vary.")
    free = {rv.name: rv for rv in model.free_RVs}
    if not isinstance(name, str) or name not in free:
        raise ModelError(f'"{name}" is no free variable of the model, which has {sorted(free)}. Name one of these.')
    if type(free[name].owner.op).__name__ in IMPROPER:
        raise ModelError(f'The prior of "{name}" is improper, so that it has no scale. Give it a proper one.')
    transform = model.rvs_to_transforms[free[name]]
    if transform is None and _default_transform(free[name].owner.op, free[name]) is not None:
        raise ModelError(f'"{name}" is bounded and declared without its transform. Declare it with the default one.')
    if transform is None:
        return
    if not isinstance(transform, type(log_transform)):
        raise ModelError(
            f'"{name}" is neither unbounded nor positive (its transform is {type(transform).__name__}), so that scaling would '
            "leave its support. Declare models with other priors, and give them to ModelSet."
        )
    if any(shifts):
        raise ModelError(f'"{name}" is positive, and location={shifts} would move it below 0. Vary its scale.')
