"""Why there is no mode, in two sentences: which parameters are to blame, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

Derivatives = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
#: Whether the prior is the same from some θ in a direction.
Flat = Callable[[np.ndarray, np.ndarray], bool]
#: What PyMC rejects at θ, in words that say where that is, or None.
Rejection = Callable[[np.ndarray, str], str | None]

_NAMED = 6
_FAR = 8.0
_TELLING = ("singular", "runaway", "stuck", "saddle", "start")


@dataclass(frozen=True)
class Failure:
    """Where Newton's method ended without a mode: `kind`, its start and end, and the directions to blame (q, d)."""

    kind: str
    start: np.ndarray
    theta: np.ndarray
    directions: np.ndarray


#: What is said of each kind, with the prior in S (True) and without it (False).
SENTENCES = {
    ("start", True): "The density of {names} is not finite where the model starts. Declare initval= or give initvals=.",
    ("start", False): "The density of {names} is not finite where the model starts. Declare initval= or give initvals=.",
    ("kink", True): (
        "The log-posterior has a kink in {blamed}, so that it has no Hessian at its mode. "
        "Use a smooth function (Normal, Student-t, sigmoid) in place of a Laplace prior, a relu or a clip."
    ),
    ("kink", False): (
        "The likelihood has a kink in {blamed}, so that it has no Hessian at its maximum. Use a smooth function in place of it."
    ),
    ("singular", True): (
        "The Hessian at the mode is singular along {blamed}: these parameters are not identified. "
        "Give them a proper prior, drop what is redundant, or replace a relu by a smooth function."
    ),
    ("singular", False): (
        "The {n_rows} labeled rows do not identify {blamed}, so that there is no unique maximum-likelihood estimate of the "
        '{q} parameters. Use a criterion with the prior, as "ppp".'
    ),
    ("runaway", True): (
        "The log-posterior has no finite mode: it grows along {blamed}. For the scale of a hierarchy use a "
        "non-centered form (group = mu + scale * z, z standard normal); give anything else a proper prior."
    ),
    ("separated", True): (
        "The log-posterior has no finite mode: the labeled rows are separated along {blamed}, where the prior is flat. "
        "Give these a proper prior, as Normal(0, 2.5)."
    ),
    ("runaway", False): (
        "The likelihood grows without bound along {blamed}: the labeled rows are separated in that direction. "
        'Use a criterion with the prior, as "ppp".'
    ),
    ("lost", True): (
        "No mode of the log-posterior was found from {starts} starts; the first stopped at {blamed}. "
        "Give a better start with initvals=, or a simpler model."
    ),
    ("lost", False): (
        "No maximum of the likelihood was found from {starts} starts; the first stopped at {blamed}. "
        'Use a criterion with the prior, as "ppp".'
    ),
}


def explain(
    failures: Sequence[Failure],
    derivatives: Derivatives,
    names: Sequence[str],
    to_theta: Callable[[np.ndarray], np.ndarray],
    *,
    prior: bool,
    n_rows: int,
    not_finite: Sequence[str],
    rejection: Rejection,
    flat: Flat,
) -> str:
    """The sentences for the most telling of the failures; `not_finite` names variables without a density at the start.

    `to_theta` makes θ (S, q), by `names`, of the coordinates (S, d) of failures and derivatives. Where PyMC rejects the labels'
    parameters at the start, or just beyond the end, that is said.
    """
    failure = _with_kink(failures, derivatives) or min(failures, key=lambda f: _TELLING.index(f.kind))
    failure, failures = _in_theta(failure, to_theta), [_in_theta(each, to_theta) for each in failures]
    rejected = _rejected(failure, failures, rejection)
    if rejected is not None:
        return rejected
    failure = _understood(failure)
    if failure.kind == "runaway" and prior and failure.directions.size and flat(failure.theta, failure.directions[:, 0]):
        failure = replace(failure, kind="separated")
    kind = failure.kind if (failure.kind, prior) in SENTENCES else "lost"
    return SENTENCES[kind, prior].format(
        blamed=_loads(failure, names),
        names=", ".join(f'"{name}"' for name in not_finite) or "the labels",
        n_rows=n_rows,
        q=len(names),
        starts=len(failures),
    )


def unidentified(matrix: np.ndarray, names: Sequence[str], n_rows: int) -> str:
    """The sentences for predictors (R, q) of D without a prior, which are fewer than parameters and so never identify them.

    To blame are those with the largest part outside the span of the predictors.
    """
    basis = np.linalg.qr(matrix.T)[0]
    outside = np.sqrt(np.maximum(1 - (basis**2).sum(axis=1), 0.0))
    failure = Failure("singular", np.zeros(len(names)), np.zeros(len(names)), outside[:, None])
    return SENTENCES["singular", False].format(blamed=_loads(failure, names), n_rows=n_rows, q=len(names))


def _in_theta(failure: Failure, to_theta: Callable[[np.ndarray], np.ndarray]) -> Failure:
    origin = np.zeros((1, len(failure.theta)))
    start, theta = to_theta(np.vstack([failure.start, failure.theta]))
    directions = to_theta(np.vstack([origin, failure.directions.T]))
    return replace(failure, start=start, theta=theta, directions=(directions[1:] - directions[0]).T)


def _rejected(failure: Failure, failures: Sequence[Failure], rejection: Rejection) -> str | None:
    if failure.kind == "start":
        return next(filter(None, (rejection(f.start, "where the fit starts") for f in failures)), None)
    if failure.kind == "stuck":
        return rejection(failure.theta + failure.directions[:, 0], "beyond the highest point that was found")
    return None


def _with_kink(failures: Sequence[Failure], derivatives: Derivatives) -> Failure | None:
    """The first that could not go on, or has run away, at a kink: others may then have run away from it."""
    for failure in failures:
        kinks = _kinks(derivatives, failure.theta) if failure.kind in ("stuck", "runaway") else np.empty(0, dtype=int)
        if kinks.size:
            return replace(failure, kind="kink", directions=np.eye(len(failure.theta))[:, kinks])
    return None


def _understood(failure: Failure) -> Failure:
    """A failure to go on is that of a parameter that has run far away on the unconstrained scale."""
    move = failure.theta - failure.start
    if failure.kind == "stuck" and np.abs(move).max() > _FAR:
        return replace(failure, kind="runaway", directions=move[:, None])
    return failure


def _loads(failure: Failure, names: Sequence[str]) -> str:
    """The parameters that load on the directions to blame, the heaviest first, with signs for a single direction."""
    directions = failure.directions if failure.directions.size else failure.theta[:, None]
    size = np.abs(directions).max(axis=1)
    heavy = [k for k in np.argsort(-size) if size[k] > 0.1 * size.max()]
    sign = np.sign(directions[:, 0])
    text = ", ".join(f'{"-" if directions.shape[1] == 1 and sign[k] < 0 else ""}"{names[k]}"' for k in heavy[:_NAMED])
    return text + (f" and {len(heavy) - _NAMED} more" if len(heavy) > _NAMED else "")


def ends_on_a_ridge(failure: Failure, derivatives: Derivatives) -> bool:
    """Whether a search could not go on at a kink where S falls on both sides, so that another start would end there, too."""
    if failure.kind != "stuck":
        return False
    return any(below > 0 > above for _, below, above in _jumps(derivatives, failure.theta))


def _kinks(derivatives: Derivatives, theta: np.ndarray) -> np.ndarray:
    """Parameters in which the gradient jumps at θ."""
    return np.array([k for k, _, _ in _jumps(derivatives, theta)], dtype=int)


def _jumps(derivatives: Derivatives, theta: np.ndarray) -> list[tuple[int, float, float]]:
    """The same with the gradient in that parameter below and above."""
    jumps = []
    for k in range(len(theta)):
        shift = np.zeros_like(theta)
        shift[k] = 1e-5 * (1 + abs(theta[k]))
        (right, above, h1), (left, below, h2) = derivatives(theta + shift), derivatives(theta - shift)
        if not np.isfinite([left, right]).all():  # the end of the density, which is no kink in it
            continue
        smooth = 2 * shift[k] * max(abs(h1[k, k]), abs(h2[k, k]))
        if abs(above[k] - below[k]) > 100 * smooth + 1e-2:
            jumps.append((k, float(below[k]), float(above[k])))
    return jumps
