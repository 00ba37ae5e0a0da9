"""Lists and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def bullets(sentences: Sequence[str]) -> str:
    """One sentence a bullet."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells below a header."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])
