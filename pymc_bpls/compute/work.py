"""Long work, as a public method does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pymc_bpls.compute.memory import refused_when_exhausted
from pymc_bpls.text.progress import Tell, progress


@contextmanager
def working(words: str, progressbar: bool, total: int | None = None) -> Iterator[Tell]:
    """A line says what is going on, and what runs out of memory is refused in words."""
    with progress(words, progressbar, total) as tell, refused_when_exhausted(words[0].upper() + words[1:]):
        yield tell
