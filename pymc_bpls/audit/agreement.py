"""How well scores agree with exact values: ranks, the choice, and errors on the scale of log PPP.

Every number that depends on the reference has its Monte Carlo error, from sets of values that scatter around the reference as
it does around the truth. A noisy reference lowers rank agreement: noise with standard error σ flips pairs that are nearer than
σ, so that the loss is b σ and, when the noise is added once more, b √2 σ. The difference between the two says how large b σ is,
and the interval of τ and ρ reaches up by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_bpls.audit.truth import Truth
from pymc_bpls.rules.ranking import TIED, best_first, kendall, ranks, spearman

_REPLICATES, _OF_BEST = 100, 2000
_RANKED = 2000
_NORMAL = 1.96


@dataclass(frozen=True)
class PairScores:
    """Scores of pairs by one criterion, all arrays of shape (pairs,).

    Attributes
    ----------
    score : ndarray
        NaN where there is none.
    log_p : ndarray or None
        The score as a log probability, which compares with log PPP up to a constant; None where it is none.
    absolute : bool
        Whether `log_p` compares with log PPP as it is.
    constant_error : float
        Monte Carlo error of the constant that all `log_p` share.
    pareto_k : ndarray, shape (sets, pairs), or None
        k-hat of importance sampling of each candidate's integrand from the criterion's own Gaussian, by sets of draws.
    gaussian_k : ndarray, shape (sets,), or None
        The same for the posterior itself.
    """

    score: np.ndarray
    log_p: np.ndarray | None
    absolute: bool = False
    constant_error: float = 0.0
    pareto_k: np.ndarray | None = None
    gaussian_k: np.ndarray | None = None

    @property
    def choice(self) -> int:
        """The pair with the largest score, the first among ties."""
        return int(best_first(self.score)[0][0])


def errors(scored: PairScores, truth: Truth, *, absolute: bool = True) -> tuple[np.ndarray, np.ndarray] | None:
    """log PPP by the criterion minus the exact one, with Monte Carlo errors; centred where either has no absolute value, or
    where that is not asked for.
    """
    if scored.log_p is None:
        return None
    absolute = absolute and scored.absolute and truth.absolute
    spread = np.hypot(truth.absolute_error, scored.constant_error) if absolute else truth.centred_error()
    known = np.where(truth.reached, truth.value, np.nan)
    return _difference(scored.log_p, known, absolute), np.broadcast_to(spread, truth.value.shape)


def _difference(log_p: np.ndarray, value: np.ndarray, absolute: bool) -> np.ndarray:
    both = np.isfinite(log_p) & np.isfinite(value)
    difference = np.where(both, log_p, np.nan) - np.where(both, value, np.nan)
    return difference if absolute or not both.any() else difference - difference[both].mean()


def agreement(scored: PairScores, truth: Truth, flagged: np.ndarray, top: int, seed: int) -> dict[str, Any]:
    """Agreement of `scored` with `truth`; the keys are those of `DESCRIPTIONS`."""
    usable = np.isfinite(scored.score) & np.isfinite(truth.value) & truth.reached
    found: dict[str, Any] = {"n_compared": int(usable.sum()), "n_unflagged": int((usable & ~flagged).sum())}
    found |= _of_choice(scored, truth, seed)
    of_all = _of_ranks(scored.score, truth, usable, seed)
    unflagged = _of_ranks(scored.score, truth, usable & ~flagged, seed) if (usable & flagged).any() else of_all
    for name, of_some in (("", of_all), ("_unflagged", unflagged)):
        for key, (estimate, low, high) in of_some.items():
            found |= {f"{key}{name}": estimate, f"{key}{name}_low": low, f"{key}{name}_high": high}
    found |= _overlap(scored.score, truth, usable, min(top, int(usable.sum())), seed)
    found |= _of_errors(scored, truth, seed)
    found |= _of_ties(scored, truth)
    if scored.gaussian_k is not None:
        k_hat = scored.gaussian_k
        found |= {"pareto_k": float(k_hat.mean()), "pareto_k_mcse": float(k_hat.std(ddof=1) / np.sqrt(len(k_hat)))}
    return found


def _of_choice(scored: PairScores, truth: Truth, seed: int) -> dict[str, Any]:
    choice, best = scored.choice, truth.best
    [probability] = truth.probability_best(np.array([choice]), _OF_BEST, np.random.default_rng(seed))
    order, rank = best_first(scored.score)
    to_choice = truth.difference_error(np.arange(len(truth.value)), np.full(len(truth.value), choice))
    return {
        "n_tied": int((rank[: len(order)] == 0).sum()),
        "choice": choice,
        "top_1": bool(truth.value[choice] >= truth.value[best] - TIED),
        "regret": float(truth.value[best] - truth.value[choice]),
        "regret_mcse": _regret_error(truth, choice, seed),
        "regret_proven": truth.beyond_error(truth.value - truth.value[choice], to_choice),
        "prob_best": float(probability),
    }


def _regret_error(truth: Truth, choice: int, seed: int) -> float:
    """Paired with the best one; of the best one itself, the root mean square of what others are ahead by under the noise."""
    if choice != truth.best:
        return float(truth.difference_error(truth.best, choice))
    ahead = [np.nanmax(values) - values[choice] for values in _replicates(truth, seed)]
    return float(np.sqrt(np.mean(np.square(ahead)))) if ahead else 0.0


def _of_ranks(score: np.ndarray, truth: Truth, usable: np.ndarray, seed: int) -> dict[str, tuple[float, float, float]]:
    """τ and ρ, each with its interval, over at most 2,000 pairs, spread evenly over the exact ranking where there are more."""
    places = np.flatnonzero(usable)
    if len(places) > _RANKED:
        order = places[np.argsort(-truth.value[places], kind="stable")]
        places = order[np.linspace(0, len(order) - 1, _RANKED).astype(int)]
    found = {}
    own, exact = ranks(score[places]), ranks(truth.value[places])
    samples = [ranks(values[places]) for values in _replicates(truth, seed)]
    for key, statistic in (("tau", kendall), ("rho", spearman)):
        estimate = statistic(own, exact)
        found[key] = estimate, *interval(estimate, np.array([statistic(own, sample) for sample in samples]))
    return found


def _replicates(truth: Truth, seed: int) -> list[np.ndarray]:
    return [] if truth.known else list(truth.replicates(_REPLICATES, np.random.default_rng(seed)))


def interval(estimate: float, replicates: np.ndarray) -> tuple[float, float]:
    """95% Monte Carlo interval of a rank correlation from its values under noise that is added once more.

    Examples
    --------
    >>> from pymc_bpls.audit.agreement import interval
    >>> interval(0.9, np.array([]))
    (0.9, 0.9)
    """
    if not len(replicates) or np.isnan(estimate):
        return estimate, estimate
    spread = _NORMAL * float(replicates.std(ddof=1))
    lost = max(0.0, (estimate - float(replicates.mean())) / (np.sqrt(2) - 1))
    return max(-1.0, estimate - spread), min(1.0, estimate + lost + spread)


def _overlap(score: np.ndarray, truth: Truth, usable: np.ndarray, top: int, seed: int) -> dict[str, float]:
    """The share of the criterion's `top` best among the exact `top` best, ties with the last of these included."""
    chosen = best_first(np.where(usable, score, np.nan))[0][:top]

    def share(values: np.ndarray) -> float:
        last = np.sort(values[usable])[-top]
        return float((values[chosen] >= last - TIED).mean())

    samples = [share(values) for values in _replicates(truth, seed)]
    return {"top_k": share(truth.value), "top_k_mcse": _sd(samples)}


def _of_errors(scored: PairScores, truth: Truth, seed: int) -> dict[str, float]:
    """Errors as they are, and centred: what all candidates share moves no choice."""
    if scored.log_p is None:
        return {}
    found = _sizes(scored, truth, seed, absolute=False)
    found = {f"{key}_centred{end}": found[f"{key}_error{end}"] for key in ("max", "mean") for end in ("", "_mcse")}
    share = found["max_centred"] / truth.scale if truth.scale > 0 else np.nan
    centred = errors(scored, truth, absolute=False)
    assert centred is not None
    proven = truth.beyond_error(np.abs(centred[0]), centred[1])
    return _sizes(scored, truth, seed, absolute=True) | found | {"max_centred_share": share, "max_centred_proven": proven}


def _of_ties(scored: PairScores, truth: Truth) -> dict[str, Any]:
    """The lead of a choice, the criterion's own error of a difference, and how many pairs are nearer than that.

    The error is √2 times the root mean square of the centred errors, without what the reference's own error explains of it.
    """
    order, _ = best_first(scored.score)
    found = errors(scored, truth, absolute=False)
    if found is None or scored.log_p is None or len(order) < 2:
        return {}
    squares, spread = np.nanmean(found[0] ** 2), np.nanmean(found[1] ** 2)
    own = float(np.sqrt(2 * max(squares - spread, 0.0)))
    behind = scored.log_p[order[0]] - scored.log_p[order[1:]]
    return {"lead": float(behind[0]), "own_error": own, "n_within_own_error": int((behind < own).sum())}


def _sizes(scored: PairScores, truth: Truth, seed: int, *, absolute: bool) -> dict[str, float]:
    """The largest and the mean size of the errors, with Monte Carlo errors."""
    found = errors(scored, truth, absolute=absolute)
    assert found is not None and scored.log_p is not None
    error, spread = found
    absolute = absolute and scored.absolute and truth.absolute
    shared = np.hypot(truth.constant_error, scored.constant_error) if absolute else 0.0
    shifts = shared * np.random.default_rng(seed).normal(size=_REPLICATES)
    samples = [
        np.abs(_difference(scored.log_p, np.where(truth.reached, values + shift, np.nan), absolute))
        for values, shift in zip(_replicates(truth, seed), shifts, strict=False)
    ]
    size = np.abs(error)
    return {
        "max_error": float(np.nanmax(size)),
        "max_error_mcse": max(_sd([np.nanmax(sample) for sample in samples]), float(spread[np.nanargmax(size)])),
        "mean_error": float(np.nanmean(size)),
        "mean_error_mcse": max(_sd([np.nanmean(sample) for sample in samples]), float(shared)),
    }


def _sd(samples: list[Any]) -> float:
    """Standard deviation, 0 where samples differ by rounding only."""
    return float(np.std(samples, ddof=1)) if samples and np.ptp(samples) > TIED else 0.0


def correlation(diagnostic: np.ndarray, scored: PairScores, truth: Truth, seed: int) -> tuple[float, float, float]:
    """Spearman's ρ of |diagnostic|, shape (sets, pairs), with the size of the criterion's centred error, and its interval.

    What all candidates share makes none of them worse than another, so that it is left out.
    """
    log_p, sets = scored.log_p, len(diagnostic)
    assert log_p is not None
    usable = np.isfinite(_difference(log_p, truth.value, False)) & np.isfinite(diagnostic).all(axis=0) & truth.reached

    def rho(size: np.ndarray, values: np.ndarray) -> float:
        return spearman(ranks(np.abs(size[usable])), ranks(np.abs(_difference(log_p, values, False))[usable]))

    estimate = rho(diagnostic.mean(axis=0), truth.value)
    samples = _replicates(truth, seed) or [truth.value] * (sets if sets > 1 else 0)
    return (estimate, *interval(estimate, np.array([rho(diagnostic[i % sets], each) for i, each in enumerate(samples)])))


DESCRIPTIONS = {
    "n_tied": "how many pairs share the criterion's largest score",
    "choice": "row position of the criterion's best candidate",
    "choice_label": "the class that it is chosen with",
    "top_1": "whether that is the exact best one, or tied with it",
    "regret": "exact log PPP lost by that choice",
    "regret_mcse": "Monte Carlo standard error of the regret, paired",
    "regret_proven": "how much of the regret its Monte Carlo error does not explain: a lower 95% bound over all candidates",
    "prob_best": "probability that the choice is the exact best, given the Monte Carlo error",
    "tau": "Kendall's tau_b with the exact ranking; _low and _high are its 95% Monte Carlo interval",
    "rho": "Spearman's rho with the exact ranking; _low and _high are its 95% Monte Carlo interval",
    "tau_unflagged": "tau without the flagged candidates",
    "rho_unflagged": "rho without the flagged candidates",
    "top_k": "share of the criterion's best few among the exact best few",
    "top_k_mcse": "Monte Carlo standard error of that share",
    "max_error": "largest absolute error of log PPP (centred where one of the two has no absolute value)",
    "max_error_mcse": "Monte Carlo standard error of the largest error",
    "mean_error": "mean absolute error of log PPP",
    "mean_error_mcse": "Monte Carlo standard error of the mean error",
    "max_centred": "largest absolute error of log PPP but for what all candidates share",
    "max_centred_mcse": "Monte Carlo standard error of the largest centred error",
    "max_centred_proven": "how much of it the reference's own error does not explain: a lower 95% bound over all candidates",
    "mean_centred": "mean absolute centred error of log PPP",
    "mean_centred_mcse": "Monte Carlo standard error of the mean centred error",
    "max_centred_share": "the largest centred error divided by the scale, the range of exact log PPP unless few stretch it",
    "lead": "log PPP by which its choice is ahead of its next one, by its own scores",
    "own_error": "how far a difference of its scores is off: √2 times the root mean square of its centred errors",
    "n_within_own_error": "how many pairs are nearer to its choice than that",
    "pareto_k_mcse": "standard error of that k-hat, from sets of draws",
    "pareto_k": "k-hat of importance sampling of the posterior from the criterion's own Gaussian",
    "n_compared": "number of pairs with a finite score and a finite exact value",
    "n_unflagged": "how many of them have no flag",
    "verdict": "one plain sentence",
}

OF_CANDIDATES = {
    "log_ppp": "exact log PPP",
    "log_predictive": "exact log PPP up to a constant that all candidates share",
    "mcse": "Monte Carlo standard error of the exact value",
    "diff_to_best": "exact value minus that of the best",
    "diff_to_best_mcse": "its paired Monte Carlo standard error",
    "prob_best": "probability that the candidate is the exact best, given the Monte Carlo error",
    "flags": "why the candidate is flagged, or nothing",
    "pseudo_label": "the class that it is scored with",
    "class_sum_error": "log of the sum of Laplace's PPP over the classes, minus Laplace's log Z_2/Z_1",
    "score": "the criterion's score as score() gives it, where a constant may be left out",
    "approximate": "log PPP by the criterion, shifted to the mean of the exact values where the score leaves out a constant",
    "error": "approximate minus exact",
    "error_mcse": "Monte Carlo standard error of that",
    "centred": "error without its mean over the candidates, which moves no choice",
    "centred_mcse": "Monte Carlo standard error of that",
    "pareto_k": "k-hat of importance sampling of the candidate's integrand from the criterion's Gaussian",
}
