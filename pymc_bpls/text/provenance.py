"""How a result was made, as attrs that every result keeps, in memory and in a file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pymc_bpls.text.versions import versions


def made_with(random_seed: int | np.random.Generator | None, **sampler: Any) -> dict[str, Any]:
    """`versions`, `random_seed` and, of what was sampled, `sampler`, as attrs.

    Of a generator its state is kept as JSON, so that this comes before the first draw. Options of the sampler that nobody gave
    are left out.

    Examples
    --------
    >>> from pymc_bpls.text.provenance import made_with
    >>> made = made_with(3, method="nuts", draws=500, nuts_sampler=None)
    >>> made["random_seed"], made["sampler"]
    (3, 'method=nuts, draws=500')
    """
    said = ", ".join(f"{name}={value}" for name, value in sampler.items() if value is not None)
    return {"versions": versions(), "random_seed": _seed(random_seed), **({"sampler": said} if said else {})}


def _seed(random_seed: int | np.random.Generator | None) -> int | str:
    if random_seed is None:
        return "none"
    if isinstance(random_seed, np.random.Generator):
        return json.dumps(random_seed.bit_generator.state, default=lambda array: array.tolist())
    return int(random_seed) if isinstance(random_seed, int | np.integer) else str(random_seed)
