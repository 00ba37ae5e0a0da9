"""What a pool tells a model, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pymc_bpls.model.pool_terms import PoolTerms

#: Below a thousandth of a nat an sd narrows by a thousandth at most.
LEAST_NATS = 1e-3

_ADD_NOTHING = "Pseudo-labels add no information."


def say_information(
    terms: PoolTerms, nats: float, labels: float, by_source: Mapping[str, float], nuisance: tuple[float, Sequence[str]], m: int
) -> str:
    """What a pool of m rows brings, and through which variables; `nuisance` are nats of parameters that no prediction depends
    on, and the names of such variables.
    """
    if not terms.reached and not terms.places:
        if terms.apart:
            return f"The labels of the pool cannot inform this model. As declared, {terms.as_declared}. {_ADD_NOTHING}"
        return (
            f"The pool cannot inform this model: as declared, {terms.as_declared}, so that the posterior given labels and pool "
            f"is that given the labels alone. {_ADD_NOTHING}"
        )
    known = [_say_worth(terms, nats, labels, m), _say_sources(by_source, nats), _say_nuisance(*nuisance)] if by_source else []
    rest = terms.elsewhere if by_source else (terms.places,) if terms.places else ()
    unknown = (
        f"Unlabeled rows {'also ' if by_source else ''}enter {' and '.join(rest)}: every posterior of this model depends on "
        "them, and how much they tell is not known."
        if rest
        else ""
    )
    return " ".join(filter(None, [*known, unknown, _say_use(terms, nats)]))


def _say_worth(terms: PoolTerms, nats: float, labels: float, m: int) -> str:
    if nats < LEAST_NATS:
        return f"The pool of {m} rows tells this model nothing about what predictions depend on."
    brings, if_right = "brings", ""
    if terms.reached:
        brings, if_right = "is expected to bring", f", if the model of {_quoted(terms.reached, ' and ')} is right"
    return (
        f"The pool of {m} rows is worth about {_two_digits(labels)} labels: it {brings} {_two_digits(nats)} nats of "
        f"information about what predictions depend on{if_right}."
    )


def _say_sources(by_source: Mapping[str, float], nats: float) -> str:
    if len(by_source) < 2 or nats < LEAST_NATS:
        return ""
    told = ", ".join(f'"{name}" {_two_digits(max(value, 0.0))}' for name, value in by_source.items())
    return f"By themselves they bring, in nats: {told}."


def _say_nuisance(nats: float, names: Sequence[str]) -> str:
    """Where no prediction depends on whole variables that the pool tells something of."""
    if nats < LEAST_NATS or not names:
        return ""
    return f"It brings {_two_digits(nats)} nats about parameters that no prediction depends on ({_quoted(names, ', ')})."


def _say_use(terms: PoolTerms, nats: float) -> str:
    if not terms.reached:
        return "Pseudo-labels add no information to that."
    if nats < LEAST_NATS:
        return ""
    return "marginalize() takes it in; a wrong model can lose by it, more with more rows."


def _quoted(names: Sequence[str], between: str) -> str:
    return between.join(f'"{name}"' for name in names)


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
