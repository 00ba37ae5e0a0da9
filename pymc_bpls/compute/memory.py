"""Memory is asked for before it is taken: arrays that cannot fit are refused in words, and so is what runs out of it anyway."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from jax.errors import JaxRuntimeError

from pymc_bpls.errors import SizeError

#: Absent on Windows, which has no such limits.
resource = import_module("resource") if find_spec("resource") else None

GIB = 2**30
_UNKNOWN = 8 * GIB
_SMALL = 64 * 2**20
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_WORDS = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "bad_alloc")
_SMALLER = "Take fewer parameters (coarser groups, fewer features) or a table of fewer rows"


def free_bytes() -> int:
    """What this process may still take: the machine's memory, or what a container or `ulimit -v` leaves of it.

    What other processes hold is not counted, since systems give it back in part; 8 GiB where nothing is known.
    """
    held, resident = _held()
    limits = [_machine() - resident]
    for path in _CONTAINER:
        words = _read(path)
        limits += [int(words[0]) - resident] if words and words[0].isdigit() else []
    if resource is not None:
        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits += [] if most == resource.RLIM_INFINITY else [most - held]
    return max(0, min(limits))


def _machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN


def _held() -> tuple[int, int]:
    """Address space and memory of this process, where Linux tells it; 0 elsewhere."""
    words = _read("/proc/self/statm")
    if len(words) < 2:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(words[0]) * page, int(words[1]) * page


def _read(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:
        return []


def ask_memory(what: str, n_bytes: int, instead: str = _SMALLER) -> None:
    """Refuse what would take more memory than there is.

    Raises
    ------
    SizeError
        With the size in GiB, and what to do `instead`.
    """
    if n_bytes <= _SMALL:
        return
    free = free_bytes()
    if n_bytes > free:
        raise SizeError(f"{what} would take {n_bytes / GIB:.1f} GiB, and {free / GIB:.1f} GiB of memory are left. {instead}.")


@contextmanager
def refused_when_exhausted(what: str) -> Iterator[None]:
    """Says in words what ran out of memory, for arrays whose size nobody asked about.

    Raises
    ------
    SizeError
        In place of a MemoryError, or of JAX's.
    """
    try:
        yield
    except (MemoryError, JaxRuntimeError) as error:
        text = str(error)
        if isinstance(error, JaxRuntimeError) and not any(word in text for word in _WORDS):
            raise
        raise SizeError(f"{what} ran out of memory{_asked_for(text)}. {_SMALLER}.") from error


def _asked_for(text: str) -> str:
    """The size that NumPy or JAX names."""
    numpy = re.search(r"allocate ([\d.]+ [KMGTP]iB)", text)
    jax = re.search(r"allocating (\d+) bytes", text)
    if numpy:
        return f" when it asked for {numpy[1]} more"
    return f" when it asked for {int(jax[1]) / GIB:.1f} GiB more" if jax else ""
