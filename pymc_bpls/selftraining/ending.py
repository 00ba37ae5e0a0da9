"""Why a run ended, as a code and as a sentence."""

from __future__ import annotations

from dataclasses import dataclass

#: The codes of `run.attrs["stop_kind"]`.
KINDS = {
    "pool": "no candidate is left",
    "rounds": "as many rounds as `rounds=` asked for are done",
    "rule": "a rule in `stop=` said so; `stop_rule` names it",
    "scores": "no candidate has a finite score",
    "refused": "the next round was refused, as where its model has no mode",
    "interrupted": "Ctrl-C",
    "failed": "an error that is not of this package, as of a rule or a weight of the user's",
}


@dataclass(frozen=True)
class Ending:
    """Why a run ended: one of `KINDS`, the reason in words, and the stop rule that asked for it, where one did.

    `kind` is None for a run that was written before there were codes.
    """

    kind: str | None
    reason: str
    rule: str | None = None
