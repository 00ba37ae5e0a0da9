"""The rivals in R, many splits a process: `glm` on the labeled rows, and mclust's classification with and without the pool."""

from __future__ import annotations

import csv
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from validation.rivals.measures import SECONDS, measure
from validation.rivals.methods import rounded
from validation.rivals.settings import Setting
from validation.rivals.splits import Drawn, draw_split
from validation.study.store import Record

GLM, MCLUST, MCLUST_ALONE = "glm", "mclust", "mclust_alone"
OF_CLASSES = (MCLUST, MCLUST_ALONE)
SCRIPT = Path(__file__).with_suffix(".R")
CHECK = "quit(status = !requireNamespace('mclust', quietly = TRUE))"


def available() -> bool:
    """Whether R is here, with mclust."""
    return shutil.which("Rscript") is not None and subprocess.run(["Rscript", "-e", CHECK], capture_output=True).returncode == 0


def compute(setting: Setting, repetitions: Sequence[int], methods: Sequence[str]) -> dict[int, Record]:
    """What is stored of each repetition; a method that fails on a split is not in it."""
    splits = {number: draw_split(setting, number) for number in repetitions}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pd.concat([_frame(number, drawn) for number, drawn in splits.items()]).to_csv(folder / "splits.csv", index=False)
        subprocess.run(["Rscript", str(SCRIPT), str(folder), *methods], check=True, capture_output=True)
        lines = [line for line in csv.reader((folder / "probabilities.csv").read_text().splitlines()) if line]
    records: dict[int, Record] = {number: {} for number in repetitions}
    for number, method, seconds, *of_one in lines:
        drawn, p = splits[int(number)], np.array(of_one, dtype=float)
        found = measure(np.column_stack([1 - p, p]), drawn.y[drawn.test])
        records[int(number)][method] = rounded(found | {SECONDS: float(seconds)})
    return records


def methods_of(setting: Setting, wanted: Sequence[str]) -> list[str]:
    """Those of them that are run on a setting."""
    return [name for name in wanted if setting.class_conditional or name not in OF_CLASSES]


def _frame(number: int, drawn: Drawn) -> pd.DataFrame:
    role = np.repeat([0, 1, 2], [len(drawn.labeled), len(drawn.candidates), len(drawn.test)])
    frame = pd.DataFrame(drawn.X, columns=[f"x{place}" for place in range(drawn.X.shape[1])])
    frame.insert(0, "class", drawn.y)
    frame.insert(0, "role", role)
    frame.insert(0, "repetition", number)
    return frame
