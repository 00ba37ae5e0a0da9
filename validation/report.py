"""All reports in one: `python -m validation.report` writes `REPORT.md` from `reports/NAME.md`, which the studies wrote."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
#: The studies in the order in which they are read; any other follows, by name.
ORDER = ("paper", "remainder", "simplified", "approximations", "levels", "references", "benchmarks", "pool", "choose", "rivals")


def names(folder: Path) -> list[str]:
    """The reports there are, in order."""
    found = sorted(path.stem for path in folder.glob("*.md"))
    return [*(name for name in ORDER if name in found), *(name for name in found if name not in ORDER)]


def nested(text: str) -> str:
    """A report as a part of another: headings one level down, and figures and files found from the folder above."""
    down = re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)
    return re.sub(r"(\[[^\]]*\]\()(?!\w+:|#)", r"\1reports/", down)


def title(text: str) -> str:
    """A report's first heading."""
    found = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"A report has no heading and begins with {text[:40]!r}. Let its study write one.")
    return found[1]


def anchor(heading: str) -> str:
    """The link that a heading has on the pages of repositories."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def assemble(folder: Path) -> str:
    """The whole, with its contents."""
    texts = [(folder / f"{name}.md").read_text() for name in names(folder)]
    contents = "\n".join(f"- [{title(text)}](#{anchor(title(text))})" for text in texts)
    lead = "# What was measured\n\nAssembled by `python -m validation.report` from the reports that the studies wrote."
    return "\n\n".join([lead, contents, *(nested(text).strip() for text in texts)]) + "\n"


def main() -> None:
    """Write the report."""
    (HERE / "REPORT.md").write_text(assemble(HERE / "reports"))


if __name__ == "__main__":
    main()
