"""Where the components of declared mixtures are, as points θ that a search for modes can start from.

Each entry of a mixture (`pm.Mixture`, `pm.NormalMixture`) is at the centre of one of its components, as PyMC's `support_point`
has it, the other parameters where they are: every combination, or where these are many, all entries in the same component.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import support_point
from pymc.distributions.mixture import MixtureRV
from pytensor.graph.basic import Variable

from pymc_bpls.compute.travel import OfFields
from pymc_bpls.model.graphs.slicing import PLAIN, Source, constant, evaluate, frontier, remake, wide

#: Starts of a search: each costs up to a fit, and a search should not cost more than a few dozen of them.
_MOST = 32


class Centres(NamedTuple):
    """Points θ (B, q), and the number of combinations of components, more than B where not all of them are there."""

    points: np.ndarray
    combinations: int
    names: tuple[str, ...]

    def left_out(self, tried: int) -> tuple[str, ...]:
        """In words, which combinations are not among the points `tried`, the first of a search's starts."""
        some = min(tried, len(self.points))
        if some >= self.combinations:
            return ()
        named = ", ".join(f'"{name}"' for name in self.names)
        return (f"the search for modes started at {some} of {self.combinations:,} combinations of the components of {named}",)


@dataclass(frozen=True)
class Components(OfFields):
    """The mixtures `names` of a model, the places (entries, width) of the entries of each in θ, and the graphs of `centres`.

    A graph has the centres of each component (K, *shape), on the unconstrained scale, at `theta`.
    """

    names: tuple[str, ...]
    places: tuple[np.ndarray, ...]
    theta: Variable
    centres: tuple[Variable, ...]

    @property
    def coordinates(self) -> np.ndarray:
        """The places of all entries in θ."""
        return np.concatenate([np.empty(0, dtype=int), *(places.ravel() for places in self.places)])

    @cached_property
    def _centres(self) -> Callable[..., list[np.ndarray]]:
        return pytensor.function([self.theta], list(self.centres), mode=PLAIN, on_unused_input="ignore")

    def at(self, theta: np.ndarray) -> Centres:
        """The points at which the other parameters are those of θ (q,); none where there is no mixture."""
        if not self.names:
            return Centres(np.empty((0, len(theta))), 0, ())
        entries: list[tuple[np.ndarray, np.ndarray]] = []
        for places, centres in zip(self.places, self._centres(theta), strict=True):
            by_entry = np.moveaxis(centres.reshape(len(centres), *places.shape), 0, 1)
            entries += zip(places, by_entry, strict=True)
        counts = [len(of_components) for _, of_components in entries]
        combinations = math.prod(counts)
        same = [tuple(min(component, count - 1) for count in counts) for component in range(max(counts))]
        chosen = list(product(*map(range, counts))) if combinations <= _MOST else same
        points = np.repeat(theta[None], len(chosen), axis=0)
        for point, components in zip(points, chosen, strict=True):
            for (where, of_components), component in zip(entries, components, strict=True):
                point[where] = of_components[component]
        return Centres(points[np.isfinite(points).all(axis=1)], combinations, self.names)


def find_components(model: pm.Model, source: Source) -> Components:
    """Those of a model's free variables."""
    mixtures = [rv for rv in model.free_RVs if isinstance(rv.owner.op, MixtureRV)]
    whole, parts = source.theta()
    outputs = model.replace_rvs_by_values([_centres_of(rv, model.rvs_to_transforms[rv]) for rv in mixtures])
    leaves = [leaf for leaf in frontier(outputs, set(source.values)) if wide(leaf) is not None]
    held = {leaf: constant(leaf, value) for leaf, value in zip(leaves, evaluate(leaves, source.givens), strict=True)}
    places = []
    for rv in mixtures:
        first, shape = source.values[model.rvs_to_values[rv]]
        width = math.prod(shape[len(shape) - rv.owner.op.ndim_supp :])
        places.append(first + np.arange(math.prod(shape)).reshape(-1, width))
    names = tuple(rv.name for rv in mixtures)
    return Components(names, tuple(places), whole, tuple(remake(outputs, {**held, **parts})))


def _centres_of(rv: Variable, transform: Any) -> Variable:
    """Of each component (K, *shape), on the unconstrained scale."""
    _, _, *components = rv.owner.inputs
    if len(components) == 1:
        stacked = pt.moveaxis(support_point(components[0]), -1 - rv.owner.op.ndim_supp, 0)
        centres = [stacked[component] for component in range(int(stacked.shape[0].eval()))]
    else:
        centres = [pt.broadcast_to(support_point(component), rv.shape) for component in components]
    return pt.stack(centres if transform is None else [transform.forward(each, *rv.owner.inputs) for each in centres])
