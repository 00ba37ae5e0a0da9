"""Results on disk: a JSON file a setting, replaced as a whole after every repetition, so that nothing finished is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.simplified.repetition import DRAWS, EVERY
from validation.simplified.settings import FEATURES, POPULATION, PRIOR_SD, SEED, SIMULATED, Setting

Record = dict[str, Any]


def protocol(setting: Setting) -> dict[str, Any]:
    """What all repetitions in a file have in common."""
    names = ("test", "labeled", "candidates")
    common = {**dict(zip(names, setting.sizes, strict=True)), "prior_sd": PRIOR_SD, "every": EVERY, "draws": DRAWS}
    simulation = {"features": FEATURES, "population": POPULATION, "seed": SEED}
    return common | (simulation if setting.source == SIMULATED else {})


@dataclass(frozen=True)
class Store:
    """The folder of results."""

    folder: Path

    def path(self, setting: Setting) -> Path:
        """Where a setting's repetitions are."""
        return self.folder / f"{setting.key}.json"

    def read(self, setting: Setting) -> dict[int, Record]:
        """The repetitions that are finished.

        Raises
        ------
        ValueError
            The file is of another protocol.
        """
        path = self.path(setting)
        if not path.exists():
            return {}
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["protocol"] != protocol(setting):
            raise ValueError(f"{path} is of another protocol: {held['protocol']}, now {protocol(setting)}. Move it away.")
        return {int(number): record for number, record in held["repetitions"].items()}

    def add(self, setting: Setting, repetition: int, record: Record) -> None:
        """Keep one more repetition."""
        records = dict(sorted((self.read(setting) | {repetition: record}).items()))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(setting)
        text = json.dumps({"protocol": protocol(setting), "repetitions": records}, separators=(",", ":"))
        new = path.with_suffix(".new")
        new.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
        os.replace(new, path)

    def missing(self, settings: Sequence[Setting], repetitions: int) -> list[tuple[Setting, int]]:
        """What has to be computed, the first repetition of every setting first."""
        done = {setting: self.read(setting) for setting in settings}
        return [(setting, number) for number in range(repetitions) for setting in settings if number not in done[setting]]
