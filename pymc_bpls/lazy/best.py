"""The best k of a pool: of each partition, and merged, which is associative: chunks, their order and retries do not count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Best:
    """Scores, rows by their number in the pool, and classes of the best pairs, the largest score first, then the first row."""

    scores: np.ndarray
    rows: np.ndarray
    codes: np.ndarray

    @classmethod
    def none(cls) -> Best:
        """Of no rows."""
        return cls(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, scores: np.ndarray, rows: np.ndarray, codes: np.ndarray, k: int) -> Best:
        """The best k of some pairs, all of them finite."""
        if len(scores) > k:  # all that tie with the last one stay in, so that the first rows among them win
            kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
            scores, rows, codes = scores[kept], rows[kept], codes[kept]
        order = np.lexsort((codes, rows, -scores))[:k]
        return cls(scores[order], rows[order], codes[order])

    @classmethod
    def merged(cls, bests: Iterable[Best], k: int) -> Best:
        """The best k of all.

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_bpls.lazy.best import Best
        >>> codes = np.zeros(2, dtype=int)
        >>> one = Best.of(np.array([1.0, 3.0]), np.array([0, 1]), codes, 2)
        >>> two = Best.of(np.array([3.0, 2.0]), np.array([2, 3]), codes, 2)
        >>> Best.merged([two, one], 2).rows.tolist()
        [1, 2]
        """
        held = [cls.none(), *bests]
        scores, rows, codes = (np.concatenate([getattr(each, name) for each in held]) for name in ("scores", "rows", "codes"))
        return cls.of(scores, rows, codes, k)
