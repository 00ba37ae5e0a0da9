"""What goes to another process: an object's fields. What was compiled or derived of them is made again there."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast


class OfFields:
    """A dataclass that is pickled as its fields alone, without its cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}
