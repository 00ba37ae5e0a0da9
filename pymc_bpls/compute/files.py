"""Files that are whole or not there: an older file of the name stays until the new one is on the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any
from uuid import uuid4


def write_whole(path: str | Path, data: Any) -> None:
    """Write bytes beside the file that `path` names or links to, and put them in its place once the disk has them.

    Raises
    ------
    OSError
        They cannot be written: the disk is full, the folder is missing or read-only, or `path` names a folder. The error has
        the `errno` of the system's, and the older file is as it was.
    """
    try:
        place = Path(os.path.realpath(path))
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _replace(place, data)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise refusal(path, error) from error


def _replace(place: Path, data: Any) -> None:
    beside = place.with_name(f".{uuid4().hex}.partial")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


def refusal(path: str | Path, error: OSError | ValueError) -> OSError:
    """An error of the same `errno` that says what is wrong with the path, and what to do."""
    number = getattr(error, "errno", None) or errno.EINVAL
    reason, cure = _CURES.get(number, (os.strerror(number), "Give another path"))
    shown = str(path).replace("\0", "\\0")
    return OSError(number, f'"{shown}" cannot be written: {reason}. {cure}.')


#: By `errno`, what is wrong and what to do.
_CURES = {
    errno.EISDIR: ("it is a folder", "Name a file in it"),
    errno.ENOENT: ("there is no such folder", "Make it, or give another path"),
    errno.ENOTDIR: ("its folder is a file", "Give another path"),
    errno.EACCES: ("the folder or the file may not be written to", "Give another path"),
    errno.EPERM: ("the folder or the file may not be written to", "Give another path"),
    errno.EROFS: ("the file system is read-only", "Give another path"),
    errno.EINVAL: ("no file can have this name", "Give another name"),
    errno.ENAMETOOLONG: ("the name is too long", "Give a shorter one"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ("the disk is full", "Make room, or give a path on another disk")),
    errno.EFBIG: ("the file would be too large", "Give a path on another disk"),
}
