"""What gives class probabilities, by its name: the mode, an average over an approximation of the posterior, or a function."""

from __future__ import annotations

from typing import Any

from pymc_bpls.errors import CriterionError
from pymc_bpls.scoring.settings import AUTO

#: The predictor that takes class probabilities at the mode, and what results call a function of the user's.
MAP, FUNCTION = "map", "a function"
_NAMES = (AUTO, MAP, "ep", "vi", "laplace")
#: What they do, in words.
AT_THE_MODE = "at the mode"
OVER_DRAWS = "averaged over draws of the posterior"


def check_predictor(predictor: Any) -> None:
    """Refuse what is neither a name nor a callable."""
    if not callable(predictor) and predictor not in _NAMES:
        known = ", ".join(map(repr, _NAMES)).replace("'", '"')
        raise CriterionError(f'predictor="{predictor}" is unknown. Use {known} or a callable.')


def settled_predictor(predictor: Any, *, proper: bool) -> Any:
    """As given, but for "auto" under an improper prior, which is at the mode."""
    return MAP if predictor == AUTO and not proper else predictor


def say_predictor(name: str) -> str:
    """How it gives class probabilities."""
    if name in (MAP, FUNCTION):
        return AT_THE_MODE if name == MAP else "by a function of your own"
    by = "the approximation that scores" if name == AUTO else f'"{name}"'
    return f"averaged over the posterior by {by}"
