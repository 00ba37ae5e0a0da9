"""What a run says of itself: whether it helped, and where its pseudo-labels are not what they seem to be."""

from __future__ import annotations

import numpy as np

from pymc_bpls.model.pool_terms import PoolTerms
from pymc_bpls.selftraining.class_balance import ClassBalance
from pymc_bpls.selftraining.history import History, won_and_lost
from pymc_bpls.text.numbers import percent


def say_pool(terms: PoolTerms) -> str:
    """What unlabeled rows and pseudo-labels can add to a declared model, in one sentence."""
    if terms.reached:
        through = " and ".join(f'"{name}"' for name in terms.reached)
        return f"Unlabeled rows can inform this model through {through}: information() says how much."
    if terms.places:
        return (
            f"Unlabeled rows enter {terms.places}, so every posterior of this model has them; pseudo-labels add no information "
            "to that."
        )
    rows = "pseudo-labels" if terms.apart else "unlabeled rows and pseudo-labels"
    return f"As declared, {terms.as_declared}: {rows} add no information."


def say_gain_without_information(terms: PoolTerms) -> str:
    """Why pseudo-labels that helped brought no information."""
    entered = f"Unlabeled rows enter {terms.places} with and without pseudo-labels"
    where = entered if terms.places else f"As declared, {terms.as_declared}"
    return f"{where}, so the gain is no information from pseudo-labels; on other rows it may be a loss."


def say_verdict(history: History, labeled: np.ndarray, names: np.ndarray, shares: np.ndarray | None, terms: PoolTerms) -> str:
    """Whether a run helped, which classes its labeled rows (codes `labeled`) lack, whether `shares` (K,) were kept, and what
    pseudo-labels can add to a model with these `terms` of unlabeled rows.
    """
    of_features = bool(terms.reached)
    codes = np.array([step["code"] for step in history.steps], dtype=int)
    balance = "" if shares is None else _say_balance(ClassBalance(shares), codes, names)
    helped = _helped(history)
    say_information = say_gain_without_information if helped == 1 else say_pool
    information = "" if of_features or not history.steps else say_information(terms)
    sentences = (
        _say_accuracy(history, helped),
        information,
        _say_classes(labeled, codes, names),
        balance,
        _say_invented(history, of_features),
    )
    return " ".join(filter(None, sentences))


def _say_invented(history: History, of_features: bool) -> str:
    """By how much pseudo-labels moved or narrowed the posterior; the pool tells a model that is `of_features` some of it."""
    nats = history.models[-1].get("invented_information", 0.0)
    if not history.steps or not nats:
        return ""
    told = "marginalize() says how much of that the pool tells" if of_features else "no label stands behind that"
    return (
        f"Invented information: pseudo-labels moved or narrowed the posterior by {nats:.2g} nats (Kullback-Leibler divergence "
        f"from that of the labels alone), and {told}."
    )


def _say_classes(labeled: np.ndarray, codes: np.ndarray, names: np.ndarray) -> str:
    """Which classes nobody has labeled, and what became of them."""
    absent = np.setdiff1d(np.arange(len(names)), labeled)
    if not absent.size:
        return ""
    others = ", ".join(str(name) for name in names[absent])
    if len(names) - absent.size > 1:
        return f"No labeled row is of class {others}, and {np.isin(codes, absent).sum()} of {len(codes)} pseudo-labels are."
    [only] = names[np.unique(labeled)]
    same = f" and {(codes == labeled[0]).sum()} of {len(codes)} pseudo-labels" if len(codes) else ""
    return f"All labeled rows{same} are of class {only}: what class {others} looks like is known from the prior alone."


def _say_balance(balance: ClassBalance, codes: np.ndarray, names: np.ndarray) -> str:
    """Whether the shares that were asked for were kept."""
    missed = balance.missed(codes)
    if not missed:
        return ""
    asked = ", ".join(f"{percent(share)} of class {name}" for name, share in zip(names, balance.shares, strict=True))
    added = ", ".join(str(count) for count in np.bincount(codes, minlength=len(names)))
    return (
        f"class_balance was not kept: it asks for {asked}, and {added} were added; {missed} times no candidate had the class "
        "that was due."
    )


def _helped(history: History) -> int:
    """1 where the last model predicts the test rows better than the supervised one beyond chance, −1 where worse, else 0.

    Both models are judged on the same rows, so that only rows that one of them predicts right count (McNemar).
    """
    if not history.right:
        return 0
    won, lost = won_and_lost(history.right[0], history.right[-1])
    return 0 if abs(won - lost) <= 1.96 * np.sqrt(won + lost) else int(np.sign(won - lost))


def _say_accuracy(history: History, helped: int) -> str:
    """How the last model predicts the test rows beside the supervised one, in one sentence."""
    if not history.right:
        return "No test rows were given, so whether self-training helped is unknown."
    before, after = history.right[0], history.right[-1]
    won, lost = won_and_lost(before, after)
    text = (
        f"Test accuracy is {after.mean():.3f} with {history.models[-1]['n_pseudo']} pseudo-labels and {before.mean():.3f} "
        f"without ({won} of {len(after)} rows won, {lost} lost)"
    )
    if not helped:
        return f"{text}: nothing was gained beyond chance."
    return f"{text}: self-training {'helped' if helped > 0 else 'did harm'}."
