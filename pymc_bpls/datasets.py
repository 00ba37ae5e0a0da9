"""The data sets of the paper's experiments, and its two simulation designs."""

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr

from pymc_bpls.errors import DataUnavailableError, LabelError, RowError

DATA_FOLDER_VARIABLE = "PYMC_BPLS_DATA"
INSTALL = 'pip install "pymc-bpls[data]"'
MUSHROOM_ROWS = 2000
MUSHROOM_SEED = 848


@dataclass(frozen=True)
class BinaryTable:
    """Named features and binary labels.

    Attributes
    ----------
    features : sequence of str, length q
    X : ndarray, shape (n, q), float64
    y : ndarray, shape (n,), int64 in {0, 1}
    """

    features: Sequence[str]
    X: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class KnownDataset:
    """What is said about a data set, and ``load(name)``, which returns its `BinaryTable`."""

    title: str
    source: str
    licence: str
    class_names: tuple[str, str]
    load: Callable[[str], BinaryTable]


@dataclass(frozen=True)
class LogitDesign:
    """Independent normal features and a logit that is linear in them.

    Attributes
    ----------
    means, sds, coefficients : ndarray, shape (q,)
    intercept : float
    """

    means: np.ndarray
    sds: np.ndarray
    intercept: float
    coefficients: np.ndarray


def load_dataset(name: str) -> xr.Dataset:
    """Load one of the data sets of the paper's Supplement H.

    Parameters
    ----------
    name : str
        Bundled: ``"banknote"``, ``"sonar"``, ``"ionosphere"``, ``"cars"``. From scikit-learn: ``"breast_cancer"``.
        Not bundled: ``"abalone"``, ``"eeg"``, ``"mushrooms"``; these are read from ``NAME.csv`` in the folder that the
        environment variable ``PYMC_BPLS_DATA`` names, and where there is no such file they are fetched from the UCI
        Machine Learning Repository by ``ucimlrepo``.

    Returns
    -------
    xarray.Dataset
        ``X`` (row, feature), float64, and ``y`` (row), int64 in {0, 1}. Coordinates: ``row``, the position in the
        table, and ``feature``, the names. Attributes: ``name``, ``title``, ``source``, ``licence`` and
        ``class_names``, the name of class 0 and that of class 1.

    Raises
    ------
    DataUnavailableError
        The name is unknown, an optional package is not installed, the repository does not answer, or a file is not a
        table of numbers with a last column ``target`` in {0, 1}.

    Notes
    -----
    A fetched ``"mushrooms"`` is a seeded subsample of 2,000 of the repository's 61,069 rows, the size that the
    experiments use; these are not the rows of any ``mushrooms.csv``. A fetched ``"abalone"`` is without infants.

    The paper links ``"banknote"`` to UCI's "banknote authentication"; the ranges that it tabulates, and this function,
    are those of Flury and Riedwyl's Swiss bank notes.

    See Also
    --------
    simulate : data with a known logit.

    Examples
    --------
    >>> from pymc_bpls.datasets import load_dataset
    >>> notes = load_dataset("banknote")
    >>> notes["X"].shape, notes.attrs["class_names"]
    ((200, 6), ['counterfeit', 'genuine'])
    >>> int(notes["y"].sum())
    100
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise DataUnavailableError(f"Data set {name!r} is unknown. Choose one of {_listed(DATASETS)}.")
    known = DATASETS[name]
    return _dataset(
        known.load(name),
        name=name,
        title=known.title,
        source=known.source,
        licence=known.licence,
        class_names=list(known.class_names),
    )


def simulate(design: str, n: int, q: int, *, random_seed: int | np.random.Generator | None = None) -> xr.Dataset:
    """Simulate from one of the paper's two designs: the one it describes, or the one its code ran.

    Both are logistic: independent normal features and y ~ Bernoulli(logit⁻¹(intercept + x'coefficients)).

    Parameters
    ----------
    design : {"supplement", "code"}
        ``"supplement"``: all q features act. ``"code"``: the logit is 2.4 − 7.9 x_1, and the other q − 1 features are
        noise on wildly different scales.
    n : int
        Number of rows, at least 2.
    q : int
        Number of features, at least 1, without the intercept, as the authors' code counts: their "q = 60" has 60
        features and 61 parameters.
    random_seed : int or numpy.random.Generator, optional
        A generator is consumed. NumPy's global random state is neither read nor changed.

    Returns
    -------
    xarray.Dataset
        As from `load_dataset`, with the truth in further attributes: ``design``, ``intercept`` (float),
        ``coefficients``, ``feature_means`` and ``feature_sds`` (each of shape (q,)).

    Raises
    ------
    DataUnavailableError
        The design is unknown.
    RowError
        There are fewer than two rows or no feature.
    LabelError
        All simulated labels are the same.

    Notes
    -----
    The paper's supplement describes binary data in which every feature acts; the public code behind its figures lets
    only the first feature act. The two differ in what a good selection can gain, so each has its name here.

    ``"supplement"`` does not reproduce the authors' coefficients, which their public code does not contain. Assumed
    here: standard normal features, intercept 0, and coefficients of random sign with sizes uniform on [½, 3/2] · 3/√q,
    so that no feature is idle and the logit has a standard deviation of about 3 for every q.

    ``"code"`` takes the logit and the first feature, x_1 ~ N(0.2, 1), from the authors' code, which gives 54% of ones.
    The authors typed a mean between −87 and 98 and a standard deviation between 0.1 and 40 for each noise feature; here
    they are drawn from these ranges, means uniformly and standard deviations log-uniformly, with `random_seed`. The
    authors drew one data set for each n and repeated only the splits.

    See Also
    --------
    load_dataset : the real data of the paper.

    Examples
    --------
    >>> from pymc_bpls.datasets import simulate
    >>> table = simulate("code", n=100, q=60, random_seed=1)
    >>> table["X"].shape
    (100, 60)
    >>> table.attrs["intercept"], table.attrs["coefficients"][:3].tolist()
    (2.4, [-7.9, 0.0, 0.0])
    """
    if not isinstance(design, str) or design not in DESIGNS:
        raise DataUnavailableError(f"Design {design!r} is unknown. Choose one of {_listed(DESIGNS)}.")
    if not (isinstance(n, Integral) and isinstance(q, Integral) and n >= 2 and q >= 1):
        raise RowError(f"A simulation with n={n!r} rows and q={q!r} features cannot be. Ask for n >= 2 and q >= 1.")
    rng = np.random.default_rng(random_seed)
    truth = DESIGNS[design](rng, q)
    return _dataset(
        _draw(rng, truth, n),
        name=f"simulated_{design}",
        title=f"Simulated logistic data, design {design!r}",
        source="Design after Rodemann et al. (2023), UAI 2023",
        licence="none: simulated",
        class_names=["0", "1"],
        design=design,
        intercept=truth.intercept,
        coefficients=truth.coefficients,
        feature_means=truth.means,
        feature_sds=truth.sds,
    )


def _dataset(table: BinaryTable, **attrs: Any) -> xr.Dataset:
    return xr.Dataset(
        {"X": (("row", "feature"), table.X), "y": ("row", table.y)},
        coords={"row": np.arange(len(table.y)), "feature": list(table.features)},
        attrs=attrs,
    )


def _listed(names: dict[str, Any]) -> str:
    return ", ".join(repr(name) for name in names)


def _load_bundled(name: str) -> BinaryTable:
    file = files("pymc_bpls") / "data" / f"{name}.csv"
    return _parse_csv(file.read_text(encoding="utf-8"), f"{name}.csv")


def _load_breast_cancer(name: str) -> BinaryTable:
    bunch = _optional("sklearn.datasets", "scikit-learn", name).load_breast_cancer()
    return BinaryTable(bunch.feature_names.tolist(), bunch.data.astype(np.float64), bunch.target.astype(np.int64))


def _load_folder_or_uci(name: str, *, uci_id: int, convert: Callable[[Any], BinaryTable]) -> BinaryTable:
    folder = os.environ.get(DATA_FOLDER_VARIABLE)
    file = Path(folder or "", f"{name}.csv")
    if folder and file.is_file():
        return _parse_csv(file.read_text(encoding="utf-8"), str(file))
    return _fetch_uci(name, uci_id, convert)


def _parse_csv(text: str, where: str) -> BinaryTable:
    """Read a header and rows of numbers whose last column is ``target``."""
    header, *lines = text.splitlines() or [""]
    *features, last = header.split(",")
    try:
        values = np.array([line.split(",") for line in lines], dtype=np.float64)
        valid = last == "target" and values.shape == (len(lines), len(features) + 1) and _is_binary(values[:, -1])
    except ValueError:
        valid = False
    if not valid or not np.isfinite(values).all():
        raise DataUnavailableError(
            f"File {where!r} is not a table of finite numbers whose last column is 'target', with both 0 and 1. "
            "Replace the file."
        )
    return BinaryTable(features, values[:, :-1], values[:, -1].astype(np.int64))


def _is_binary(y: np.ndarray) -> bool:
    return np.array_equal(np.unique(y), [0, 1])


def _optional(module: str, package: str, name: str, alternative: str = "") -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataUnavailableError(
            f"Data set {name!r} needs the package {package}, which cannot be imported. Run {INSTALL}{alternative}."
        ) from error


def _fetch_uci(name: str, uci_id: int, convert: Callable[[Any], BinaryTable]) -> BinaryTable:
    folder_advice = f"set {DATA_FOLDER_VARIABLE} to a folder that holds {name}.csv"
    ucimlrepo = _optional("ucimlrepo", "ucimlrepo", name, f", or {folder_advice}")
    try:
        fetched = ucimlrepo.fetch_ucirepo(id=uci_id)
    except (OSError, ValueError, ucimlrepo.DatasetNotFoundError) as error:
        raise DataUnavailableError(
            f"Data set {name!r} could not be fetched from UCI (id {uci_id}; {type(error).__name__}). "
            f"Check the network, or {folder_advice}."
        ) from error
    try:
        return convert(fetched.data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataUnavailableError(
            f"UCI's table for data set {name!r} (id {uci_id}) is not the one expected: {error}. Instead, {folder_advice}."
        ) from error


def _convert_abalone(data: Any) -> BinaryTable:
    """Male (1) or female (0), from the adults; `data` holds the data frames of a ``fetch_ucirepo`` result."""
    animals = data.original.rename(columns=_plain)
    adults = animals[animals["sex"] != "I"]
    columns = ["rings", "length", "whole_weight", "height", "diameter", "shell_weight"]
    names = ["rings", "length", "weight", "height", "diameter", "shell_weight"]
    return _fetched_table(names, adults[columns], adults["sex"] == "M")


def _convert_eeg(data: Any) -> BinaryTable:
    """Class 2 (1) or class 1 (0), from twelve features in order: UCI's names for them are not relied on."""
    names = [f"V{i}" for i in range(1, 13)]
    return _fetched_table(names, data.features, data.targets.iloc[:, 0] == 2)


def _convert_mushrooms(data: Any) -> BinaryTable:
    """Poisonous (1) or edible (0), from a seeded subsample in the order of the rows."""
    every = data.original.rename(columns=_plain)
    size = min(MUSHROOM_ROWS, len(every))
    rows = np.sort(np.random.default_rng(MUSHROOM_SEED).choice(len(every), size=size, replace=False))
    mushrooms = every.iloc[rows]
    names = ["cap.diameter", "stem.height", "stem.width"]
    return _fetched_table(names, mushrooms[[_plain(name) for name in names]], mushrooms["class"] == "p")


def _plain(column: str) -> str:
    """Lower case with underscores: UCI's spelling varies ("Whole_weight", "cap-diameter")."""
    return column.strip().lower().replace("-", "_").replace(".", "_").replace(" ", "_")


def _fetched_table(names: Sequence[str], features: Any, positive: Any) -> BinaryTable:
    X, y = features.to_numpy(dtype=np.float64), positive.to_numpy(dtype=np.int64)
    if X.shape[1] != len(names) or not np.isfinite(X).all() or not _is_binary(y):
        raise ValueError(f"expected {len(names)} columns of finite numbers and both classes")
    return BinaryTable(names, X, y)


def _supplement_design(rng: np.random.Generator, q: int) -> LogitDesign:
    signs = rng.choice([-1.0, 1.0], size=q)
    sizes = rng.uniform(0.5, 1.5, size=q) * 3 / np.sqrt(q)
    return LogitDesign(means=np.zeros(q), sds=np.ones(q), intercept=0.0, coefficients=signs * sizes)


def _code_design(rng: np.random.Generator, q: int) -> LogitDesign:
    means = np.concatenate([[0.2], rng.uniform(-87, 98, size=q - 1)])
    sds = np.concatenate([[1.0], np.exp(rng.uniform(np.log(0.1), np.log(40), size=q - 1))])
    coefficients = np.concatenate([[-7.9], np.zeros(q - 1)])
    return LogitDesign(means, sds, intercept=2.4, coefficients=coefficients)


def _draw(rng: np.random.Generator, truth: LogitDesign, n: int) -> BinaryTable:
    """Draw n rows; y is 1 where a standard logistic variable is below the logit, which needs no exponential."""
    X = rng.normal(truth.means, truth.sds, size=(n, len(truth.means)))
    y = (rng.logistic(size=n) < truth.intercept + X @ truth.coefficients).astype(np.int64)
    if not _is_binary(y):
        raise LabelError(f"All {n} simulated labels are {y[0]}. Use another random_seed or a larger n.")
    return BinaryTable([f"x{j}" for j in range(1, len(truth.means) + 1)], X, y)


DESIGNS: dict[str, Callable[[np.random.Generator, int], LogitDesign]] = {
    "supplement": _supplement_design,
    "code": _code_design,
}

DATASETS: dict[str, KnownDataset] = {
    "banknote": KnownDataset(
        title="Swiss bank notes",
        source="Flury and Riedwyl (1988), Multivariate Statistics: A Practical Approach; R package mclust",
        licence="published table, with attribution",
        class_names=("counterfeit", "genuine"),
        load=_load_bundled,
    ),
    "sonar": KnownDataset(
        title="Connectionist Bench (Sonar, Mines vs. Rocks)",
        source="UCI Machine Learning Repository, doi:10.24432/C5T01Q; R package mlbench",
        licence="CC BY 4.0",
        class_names=("mine", "rock"),
        load=_load_bundled,
    ),
    "ionosphere": KnownDataset(
        title="Ionosphere, without its constant column V2",
        source="UCI Machine Learning Repository, doi:10.24432/C5W01B; R package mlbench",
        licence="CC BY 4.0",
        class_names=("bad", "good"),
        load=_load_bundled,
    ),
    "cars": KnownDataset(
        title="Motor Trend cars: engine shape from weight and quarter-mile time",
        source="Henderson and Velleman (1981), Biometrics 37, 391-411; mtcars in R",
        licence="published table, with attribution",
        class_names=("V-shaped", "straight"),
        load=_load_bundled,
    ),
    "breast_cancer": KnownDataset(
        title="Breast Cancer Wisconsin (Diagnostic)",
        source="UCI Machine Learning Repository, doi:10.24432/C5DW2B; scikit-learn",
        licence="CC BY 4.0",
        class_names=("malignant", "benign"),
        load=_load_breast_cancer,
    ),
    "abalone": KnownDataset(
        title="Abalone: sex of the adults",
        source="UCI Machine Learning Repository, id 1, doi:10.24432/C55C7W",
        licence="CC BY 4.0",
        class_names=("female", "male"),
        load=partial(_load_folder_or_uci, uci_id=1, convert=_convert_abalone),
    ),
    "eeg": KnownDataset(
        title="Planning Relax (the paper's EEG)",
        source="UCI Machine Learning Repository, id 230",
        licence="CC BY 4.0",
        class_names=("class 1", "class 2"),
        load=partial(_load_folder_or_uci, uci_id=230, convert=_convert_eeg),
    ),
    "mushrooms": KnownDataset(
        title="Secondary Mushroom, a subsample of its numeric columns",
        source="UCI Machine Learning Repository, id 848",
        licence="CC BY 4.0",
        class_names=("edible", "poisonous"),
        load=partial(_load_folder_or_uci, uci_id=848, convert=_convert_mushrooms),
    ),
}
