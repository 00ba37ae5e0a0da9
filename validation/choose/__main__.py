"""Computes what is missing, then writes the report: `python -m validation.choose [rare size null power paper]`.

Every repetition is kept in `validation/results/choose/` as it is finished; a rerun computes only what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from validation.choose import rare
from validation.choose.cases import PARTS, Case, protocol
from validation.choose.rare import CELLS, RARE, REPETITIONS, Cell
from validation.choose.repetition import repeat
from validation.choose.report import write
from validation.choose.tables import GAUSSIAN, NOISE
from validation.choose.tables import LOGISTIC as SIMULATED
from validation.paper.runs.tables import load
from validation.study.command import finish, make_parser
from validation.study.compute import at_hand, fill, workers
from validation.study.store import Store


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = make_parser("choose", "does choosing by labeled rows do harm?")
    parts = [RARE, *PARTS]
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="which parts to compute; none writes the report alone")
    given = parser.parse_args(arguments)
    store: Store[Case] = Store(given.folder / "results" / "choose", protocol)
    of_rare: Store[Cell] = Store(store.folder, rare.protocol)

    with workers(given.jobs) as executor:

        def compute() -> None:
            for part in given.parts:
                if part == RARE:
                    fill(of_rare, [(cell, REPETITIONS) for cell in CELLS], rare.repeat, at_hand, executor=executor)
                    continue
                fill(store, PARTS[part], repeat, _load, executor=executor)

        finish(compute, lambda: write(store, given.folder / "reports" / "choose.md"))


def _load(source: str) -> object:
    return None if source in (GAUSSIAN, NOISE, SIMULATED) else load(source)


if __name__ == "__main__":
    main()
