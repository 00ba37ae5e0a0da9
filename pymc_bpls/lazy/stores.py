"""Scores of a whole pool on disk, written by the workers, each partition whole or not at all.

They are gathered in a folder beside the store, `<store>.partial`, which becomes the store when all partitions are there: what
looks whole is whole. The same call goes on with what the folder holds after Ctrl-C, or after an error.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_bpls.compute.files import refusal, write_whole
from pymc_bpls.errors import CriterionError
from pymc_bpls.lazy.parts import Part

if TYPE_CHECKING:
    import xarray as xr

_ROWS_OF_CHUNK = 2**20
#: Of a folder what its partitions share, and of a store of parquet its lengths and attrs.
_ABOUT, _WHOLE = "_about.json", "_whole.json"


@dataclass(frozen=True)
class Store:
    """A store of `kind` zarr or parquet at `path`: scores, and pseudo-labels by the names of the classes (K,).

    `first_candidate` is the position of the pool's first row in results.
    """

    path: Path
    kind: str
    names: np.ndarray
    first_candidate: int

    @property
    def folder(self) -> Path:
        """Where partitions are gathered."""
        return self.path.with_name(self.path.name + ".partial")

    def begin(self, about: Mapping[str, Any]) -> None:
        """Make the folder, or go on with one of the same work, which `about` describes.

        Raises
        ------
        CriterionError
            The store is there already, or its folder holds parts of other work.
        """
        if self.path.exists():
            raise CriterionError(f'to="{self.path}" exists. Name another store, or remove it.')
        said = self.folder / _ABOUT
        if said.exists() and json.loads(said.read_text()) != json.loads(json.dumps(about)):
            raise CriterionError(
                f'"{self.folder}" holds scores by other labels, settings or partitions. Remove it, or name another store.'
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refusal(self.path, error) from error
        write_whole(said, json.dumps(about).encode())

    def _reply(self, number: int) -> Path:
        return self.folder / f"_part-{number:06d}.reply"

    def _scores(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.{'parquet' if self.kind == 'parquet' else 'npz'}"

    def write(self, part: Part, scores: np.ndarray, codes: np.ndarray) -> None:
        """The scores (n,) and pseudo-labels (n,) of a partition."""
        held = io.BytesIO()
        if self.kind == "parquet":
            self._write_parquet(held, part, scores, codes)
        else:
            np.savez(held, score=scores, pseudo_label=codes)
        write_whole(self._scores(part.number), held.getvalue())

    def _write_parquet(self, file: io.BytesIO, part: Part, scores: np.ndarray, codes: np.ndarray) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        labels = pa.array(self.names.tolist()).take(pa.array(codes))
        candidates = self.first_candidate + part.first + np.arange(part.n)
        pq.write_table(pa.table({"candidate": candidates, "score": scores, "pseudo_label": labels}), file)

    def keep(self, number: int, reply: Any) -> None:
        """What a partition came to, last: with it the partition is done."""
        write_whole(self._reply(number), pickle.dumps(reply))

    def done(self, numbers: Sequence[int]) -> Iterator[Any]:
        """What the partitions came to that are done."""
        for number in numbers:
            if self._reply(number).exists() and self._scores(number).exists():
                yield pickle.loads(self._reply(number).read_bytes())

    def finish(self, lengths: Sequence[int], attrs: Mapping[str, Any]) -> None:
        """The folder as the store, now that all partitions are there; what they came to is kept until the store is.

        Raises
        ------
        OSError
            The store cannot be written. The folder is as it was, and the same call goes on from there.
        """
        if self.kind == "parquet":
            about = {"lengths": [int(length) for length in lengths], "attrs": _plain(attrs)}
            write_whole(self.folder / _WHOLE, json.dumps(about).encode())
            self.folder.rename(self.path)
            for leftover in (self.path / _ABOUT, *self.path.glob("_part-*.reply")):
                leftover.unlink()
            return
        whole = self.folder / "whole"
        try:
            self._write_zarr(whole, lengths, attrs)
        except OSError as error:
            shutil.rmtree(whole, ignore_errors=True)
            raise refusal(self.path, error) from error
        whole.rename(self.path)
        shutil.rmtree(self.folder)

    def _write_zarr(self, path: Path, lengths: Sequence[int], attrs: Mapping[str, Any]) -> None:
        import zarr

        n, rows = sum(lengths), min(max(1, sum(lengths)), _ROWS_OF_CHUNK)
        group = zarr.open_group(path, mode="w", zarr_format=3, attributes=_plain(attrs))
        flags: dict[str, Any] = {
            "flag_values": list(range(len(self.names))),
            "flag_meanings": [str(name) for name in self.names],
        }
        dtypes: dict[str, tuple[Any, dict[str, Any]]] = {
            "score": (np.dtype(float), {}),
            "pseudo_label": (np.dtype(np.int16), flags),
        }
        arrays = {
            name: group.create_array(
                name, shape=(n,), chunks=(rows,), dtype=dtype, attributes=said, dimension_names=("candidate",)
            )
            for name, (dtype, said) in dtypes.items()
        }
        parts = (np.load(self._scores(number)) for number in range(len(lengths)))
        for first, chunk in _in_chunks(parts, rows, list(arrays)):
            for name, values in chunk.items():
                arrays[name][first : first + len(values)] = values

    def open(self) -> xr.Dataset:
        """Its scores and pseudo-labels, of which nothing is read yet."""
        return (_open_parquet if self.kind == "parquet" else _open_zarr)(self.path, self.names)


def find_store(to: Any, names: np.ndarray, first_candidate: int) -> Store:
    """The store that `to=` names, by its ending."""
    path = Path(to)
    kind = {".zarr": "zarr", ".parquet": "parquet"}.get(path.suffix)
    if kind is None:
        raise CriterionError(f'to="{to}" is neither zarr nor parquet. End its name with .zarr or .parquet.')
    return Store(path.absolute(), kind, names, first_candidate)


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON holds it."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in attrs.items()}


def _in_chunks(
    parts: Iterator[Mapping[str, np.ndarray]], rows: int, names: Sequence[str]
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Arrays of parts as chunks of so many rows, each with the number of its first row."""
    held: dict[str, list[np.ndarray]] = {name: [] for name in names}
    count, first = 0, 0
    for part in parts:
        for name in names:
            held[name].append(part[name])
        count += len(part[names[0]])
        while count >= rows:
            whole = {name: np.concatenate(values) for name, values in held.items()}
            yield first, {name: values[:rows] for name, values in whole.items()}
            held = {name: [values[rows:]] for name, values in whole.items()}
            first, count = first + rows, count - rows
    if count:
        yield first, {name: np.concatenate(values) for name, values in held.items()}


def _open_zarr(path: Path, names: np.ndarray) -> xr.Dataset:
    import xarray as xr

    dataset = xr.open_zarr(path, consolidated=False, mask_and_scale=False)
    labels = dataset["pseudo_label"].variable.data.map_blocks(_named, names, dtype=names.dtype)
    return dataset.assign(pseudo_label=("candidate", labels))


def _named(codes: np.ndarray, names: np.ndarray) -> np.ndarray:
    return names[codes]


def _open_parquet(path: Path, names: np.ndarray) -> xr.Dataset:
    import dask.dataframe as dd
    import xarray as xr

    about = json.loads((path / _WHOLE).read_text())
    files = [str(path / f"part-{number:06d}.parquet") for number in range(len(about["lengths"]))]
    frame = dd.from_map(_read_column_pair, files, meta=_read_column_pair(files[0]).iloc[:0])
    columns = {
        name: ("candidate", frame[name].to_dask_array(lengths=tuple(about["lengths"]))) for name in ("score", "pseudo_label")
    }
    return xr.Dataset(columns, attrs=about["attrs"])


def _read_column_pair(file: str) -> Any:
    import pandas as pd

    return pd.read_parquet(file, columns=["score", "pseudo_label"])
