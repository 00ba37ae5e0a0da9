"""The study as Markdown, every number from the stored repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from validation.paper.hypotheses import hypotheses, without_prior
from validation.paper.report import comparisons, findings, supplement, wording
from validation.paper.settings import GRID, REAL, SHARE, TABLE_1, TWENTY
from validation.paper.summary import Summary, of
from validation.paper.winners import matches


def write(summaries: Mapping[str, Summary], path: Path, figures: Mapping[str, str]) -> None:
    """Write the report; `figures` are the figures' addresses from there."""
    table_1, twenty, grid, real = (of(summaries, settings) for settings in (TABLE_1, TWENTY, GRID, REAL))
    main = [*table_1, *twenty, *grid, *real]
    found = hypotheses(summaries, main)
    groups = {
        "the authors' design": table_1,
        "the supplement's settings": twenty,
        "the grid of fewer rows": grid,
        "real data": real,
    }
    parts = [
        "# The paper's experiments, with intervals",
        wording.ABOUT_PROTOCOL,
        findings.progress(list(summaries.values())),
        *findings.in_short(groups, found, matched := matches(summaries), both := without_prior(summaries)),
        *findings.verdicts(found),
        *supplement.winners(matched),
        *supplement.where(main),
        *_picture(
            "PPP against random selection and the probability score (not against the supervised model); a disc is a setting",
            figures.get("region"),
        ),
        *supplement.informed(both),
        *findings.original_ppp([*table_1, *real]),
        *_if("## Table 1: 60 features, one of which acts", table_1, comparisons.main(table_1)),
        *_if("## Real data", real, comparisons.main(real)),
        *_picture(
            "Accuracy along the run, and what PPP gains on the probability score and random selection", figures.get("curves")
        ),
        *_picture(
            "The original code's methods along the run, and what its PPP gains on the probability score and random selection; "
            "where it is random selection, its line is hidden under that one's",
            figures.get("original"),
        ),
        *_if("## The supplement's settings and fewer rows: all features act", held := [*twenty, *grid], comparisons.grid(held)),
        *_if("## A share of 0.9 unlabeled", held := of(summaries, SHARE), comparisons.share(held)),
        *comparisons.strength(summaries),
        *comparisons.region(main),
        *comparisons.informative(summaries),
        *comparisons.labels(main),
        *comparisons.stopping(main),
        *comparisons.approximations(main),
        "## How to read this",
        wording.HOW_TO_READ,
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _if(heading: str, summaries: Sequence[Summary], text: str) -> list[str]:
    return [heading, text] if summaries else []


def _picture(caption: str, address: str | None) -> list[str]:
    return [f"![{caption}]({address})"] if address else []
