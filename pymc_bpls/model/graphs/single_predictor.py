"""The one number through which a row's log-likelihood depends on θ, linear in θ or not: ℓ_j(θ) = g(f_j(θ)).

A hierarchy's predictor f_j = a + x_j'β + σ z_{g(j)} is such a number: with its scale σ fixed, it is linear in all else. A
softmax or an ordinal model with free cutpoints has none.
"""

from __future__ import annotations

from dataclasses import replace

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort

from pymc_bpls.model.graphs.affine_maps import AffineMap, gather_first, map_through, size_of
from pymc_bpls.model.graphs.slicing import RowGraph, depends


def find_single_predictor(graph: RowGraph) -> AffineMap | None:
    """f and g of one row, f being the first such number on the way from θ; None where there is none."""
    if not graph.sliced:
        return None
    graph = replace(graph, log_lik=gather_first(graph.log_lik))
    narrow = _first_separator(graph)
    return None if narrow is None else map_through(graph, [narrow])


def _first_separator(graph: RowGraph) -> Variable | None:
    """The first number without the label in it through which alone the log-likelihood depends on θ."""
    of_theta, of_label = depends([graph.log_lik], {graph.theta}), depends([graph.log_lik], {graph.label})
    for node in io_toposort([], [graph.log_lik]):
        for variable in node.outputs:
            known = getattr(variable.type, "dtype", None) == "float64" and None not in variable.type.shape
            if not known or variable not in of_theta or variable in of_label or size_of(variable) != 1:
                continue
            if graph.theta not in set(ancestors([graph.log_lik], blockers=[variable])):
                return variable
    return None
