"""Results on disk: a JSON file a setting, replaced as a whole after every repetition, so that nothing finished is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

Record = dict[str, Any]


class Keyed(Protocol):
    """A setting, whose key names its file."""

    @property
    def key(self) -> str: ...


class ResultsError(ValueError):
    """A file of results that is not one of the study as it is."""


S = TypeVar("S", bound=Keyed)


@dataclass(frozen=True)
class Store(Generic[S]):
    """The folder of results, and what all repetitions of a setting have in common."""

    folder: Path
    protocol: Callable[[S], dict[str, Any]]

    def path(self, setting: S) -> Path:
        """Where a setting's repetitions are."""
        return self.folder / f"{setting.key}.json"

    def read(self, setting: S) -> dict[int, Record]:
        """The repetitions that are finished.

        Raises
        ------
        ResultsError
            The file is broken or of another protocol.
        """
        path, now = self.path(setting), self.protocol(setting)
        if not path.exists():
            return {}
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            protocol, records = held["protocol"], {int(number): dict(record) for number, record in held["repetitions"].items()}
            others = [name for name in {**protocol, **now} if protocol.get(name) != now.get(name)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResultsError(f"{path} cannot be read ({type(error).__name__}: {error}). Move it away.") from error
        if others:
            raise ResultsError(f"{path} is of another protocol: {', '.join(others)} differ. Move it away.")
        return records

    def add(self, setting: S, repetition: int, record: Record) -> None:
        """Keep one more repetition."""
        records = dict(sorted((self.read(setting) | {repetition: record}).items()))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(setting)
        text = json.dumps({"protocol": self.protocol(setting), "repetitions": records}, separators=(",", ":"))
        new = path.with_suffix(".new")
        new.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
        os.replace(new, path)

    def missing(self, wanted: Sequence[tuple[S, int]]) -> list[tuple[S, int]]:
        """What has to be computed of settings with their numbers of repetitions, the first one of every setting first."""
        cells = [(setting, number) for setting, repetitions in wanted for number in range(repetitions)]
        done = {setting: self.read(setting) for setting, _ in wanted}
        return sorted((cell for cell in cells if cell[1] not in done[cell[0]]), key=lambda cell: cell[1])
