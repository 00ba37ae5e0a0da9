"""What a run says of itself: whether it helped, and where its pseudo-labels are not what they seem to be."""

from __future__ import annotations

import numpy as np

from pymc_bpls.selftraining.class_balance import ClassBalance
from pymc_bpls.selftraining.history import History, won_and_lost
from pymc_bpls.text.numbers import percent

NO_INFORMATION = "This model says nothing of x: pseudo-labels add no information."
_GAIN_WITHOUT = (
    "This model says nothing of x, so that the gain is no information from the pool: on other rows it may as well be a loss."
)


def say_verdict(
    history: History, labeled: np.ndarray, names: np.ndarray, shares: np.ndarray | None, *, of_features: bool
) -> str:
    """Whether a run helped, which classes its labeled rows (codes `labeled`) lack, whether `shares` (K,) were kept, and that
    nothing is known by the pseudo-labels of a model that is not `of_features`.
    """
    codes = np.array([step["code"] for step in history.steps], dtype=int)
    balance = "" if shares is None else _say_balance(ClassBalance(shares), codes, names)
    helped = _helped(history)
    information = "" if of_features or not history.steps else _GAIN_WITHOUT if helped == 1 else NO_INFORMATION
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
