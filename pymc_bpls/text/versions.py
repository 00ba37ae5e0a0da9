"""The versions that a result was made with, and that a report of a fault needs."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

#: What numbers may depend on, which every result keeps.
_NUMBERS = ("pymc-bpls", "pymc", "pytensor", "jax", "jaxlib", "numpy", "scipy")
#: What the package stands on besides, and what it works with where it is installed.
_OTHERS = ("pandas", "xarray", "arviz", "arviz-stats", "h5netcdf", "h5py", "matplotlib")
_OPTIONAL = ("bambi", "scikit-learn", "dask", "zarr", "pyarrow", "nutpie", "numpyro", "blackjax", "ucimlrepo")


def versions() -> str:
    """Those of Python and of what numbers depend on, on one line."""
    return ", ".join([f"python {platform.python_version()}", *(f"{name} {_version(name)}" for name in _NUMBERS)])


def show_versions() -> None:
    """Print the versions of Python, of the system, of pymc_bpls and of all that it stands on: a report of a fault needs them.

    Examples
    --------
    >>> import pymc_bpls as bpls
    >>> bpls.show_versions()
    python      : ...
    platform    : ...
    pymc-bpls   : ...
    """
    system = {"python": platform.python_version(), "platform": platform.platform()}
    packages = {name: _version(name) for name in (*_NUMBERS, *_OTHERS, *_OPTIONAL)}
    print("\n".join(f"{name:<12}: {said}" for name, said in (system | packages).items()))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
