"""Which approximation is taken where none is named: a rule that can be told before anything is fitted.

Expectation propagation where rows have one linear predictor and priors are Gaussian or those of single coefficients, or where
that is so once a few scales are fixed, unless a prior is a declared mixture, whose modes one Gaussian cannot hold; elsewhere
variational inference while D has fewer than five rows a parameter, and Laplace's method from there on. Where one of them does
not settle, the next in the order stands in: `python -m validation.approximations` has the errors and times that it follows.

Predictions have no refits that mend Laplace's Gaussian. Where one fit predicts, variational inference comes before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymc_bpls.approximations.hierarchies.scales import admits_plain
from pymc_bpls.engine.engine import Engine

LAPLACE, EP, VI = "laplace", "ep", "vi"
FEW_ROWS = 5


def approximations_in_order(engine: Engine, n_labeled: int) -> tuple[str, ...]:
    """Names of approximations, the one to take first, for D with `n_labeled` rows."""
    few = n_labeled < FEW_ROWS * engine.density.dimension
    others = (VI, LAPLACE) if few else (LAPLACE, VI)
    return (EP, *others) if admits_ep(engine) else others


def nearest_first(names: Sequence[str]) -> tuple[str, ...]:
    """These approximations as one prediction takes them.

    In 107 tables of ordinal and softmax models with two or three parameters and 5 to 20 labels each, held against quadrature,
    averages over Laplace's Gaussian are off by 0.02 to 0.06 in the median of a table's largest error, the mode by 0.02 to 0.12,
    and variational inference by 0.003 at most.
    """
    return tuple(sorted(names, key=(EP, VI, LAPLACE).index))


def admits_ep(engine: Engine) -> bool:
    """Whether rows have one linear predictor and priors of one mode that EP takes, or do once a few scales are fixed."""
    return not engine.density.components.names and (admits_plain(engine) or engine.hierarchy is not None)


def order_for_all(orders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """One order for all models of a set, whose values are compared: EP where all admit it, VI where one of them asks for it."""
    everywhere = set.intersection(*map(set, orders))
    shared = [tuple(name for name in order if name in everywhere) for order in orders]
    return max(shared, key=lambda order: order.index(LAPLACE))
