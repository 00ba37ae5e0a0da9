"""Files are whole or not there: full disks, folders that are no place to write to, and files that somebody reads."""

import errno
import os
import resource

import numpy as np
import pytest
import xarray as xr

import pymc_bpls as bpls
from pymc_bpls.compute.files import write_whole

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def run(small):
    return small.self_train("probability", rounds=2, **QUIET)


@pytest.fixture
def no_file_longer_than():
    """A full disk: the system refuses what makes a file longer, in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [2_000, 20_000])
def test_a_full_disk_is_an_error_that_leaves_the_older_file_and_the_run(small, run, tmp_path, no_file_longer_than, size):
    path, audit = tmp_path / "run.nc", small.audit(["ppp"], np.zeros(14))
    for write_it in (lambda: bpls.save(run, path), lambda: audit.to_netcdf(path)):
        path.write_bytes(b"older file")
        no_file_longer_than(size)
        with pytest.raises(OSError, match=r"cannot be written: the file would be too large\. Give a path") as caught:
            write_it()
        no_file_longer_than(resource.RLIM_INFINITY)
        assert caught.value.errno == errno.EFBIG
        assert path.read_bytes() == b"older file" and list(tmp_path.iterdir()) == [path]
        write_it()
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            assert len(tree.groups) > 3
    assert small.resume(run, rounds=1, **QUIET)["history"].sizes["step"] == 3


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full. Make room, or give a path on another disk"),
        (errno.EDQUOT, "the disk is full. Make room"),
        (errno.EACCES, "may not be written to. Give another path"),
        (errno.EROFS, "the file system is read-only. Give another path"),
        (errno.EIO, f"{os.strerror(errno.EIO)}. Give another path"),
    ],
    ids=lambda value: value if isinstance(value, str) else errno.errorcode[value],
)
def test_what_the_system_refuses_is_said_in_two_sentences(tmp_path, monkeypatch, number, words):
    (tmp_path / "kept.nc").write_bytes(b"older file")

    def refuses(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuses)
    with pytest.raises(OSError, match=f'kept.nc" cannot be written: .*{words}') as caught:
        write_whole(tmp_path / "kept.nc", b"new file")
    assert caught.value.errno == number
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"older file"]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("", IsADirectoryError, "it is a folder. Name a file in it"),
        ("nowhere/run.nc", FileNotFoundError, "there is no such folder. Make it"),
        ("file/run.nc", NotADirectoryError, "its folder is a file"),
        ("a\0b.nc", OSError, r"a\\0b.nc.*no file can have this name"),
        (300 * "x", OSError, "the name is too long"),
    ],
)
def test_places_that_no_file_can_have_are_refused_by_name(run, tmp_path, name, kind, words):
    (tmp_path / "file").touch()
    with pytest.raises(kind, match=words):
        bpls.save(run, f"{tmp_path}/{name}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["run.csv", "run.zarr", "run.json", "run.NetCDF4"])
def test_endings_of_other_formats_are_refused_by_name(run, tmp_path, name):
    ending = "." + name.split(".")[1].lower()
    with pytest.raises(bpls.CriterionError, match=rf'save writes netCDF, .* ends in "{ending}"\. Use one of \.nc, ') as caught:
        bpls.save(run, tmp_path / name)
    assert ("to_csv" in str(caught.value)) == (ending == ".csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["run", "run.NC", "run.nc4", "run.netcdf", "run.h5", "run.hdf5"])
def test_endings_of_netcdf_or_none_hold_the_run(run, tmp_path, name):
    bpls.save(run, tmp_path / name)
    with xr.open_datatree(tmp_path / name, engine="h5netcdf") as tree:
        assert tree["history"].sizes == run["history"].sizes


def test_what_names_no_file_is_refused(run):
    with pytest.raises(bpls.CriterionError, match="path= must be a text or a Path; got a NoneType"):
        bpls.save(run, None)


def test_a_file_that_is_being_read_is_replaced_by_what_it_held(small, run, tmp_path):
    path = tmp_path / "run.nc"
    bpls.save(run, path)
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        bpls.save(opened, path)
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        assert small.resume(tree.load(), rounds=1, **QUIET)["history"].sizes["step"] == 3


def test_a_link_goes_on_to_name_its_file(run, tmp_path):
    (tmp_path / "far").mkdir()
    link, file = tmp_path / "run.nc", tmp_path / "far" / "run.nc"
    link.symlink_to(file)
    bpls.save(run, link)
    assert link.is_symlink() and xr.open_datatree(file, engine="h5netcdf").attrs["criterion"] == "probability"


def test_ctrl_c_in_a_write_leaves_the_older_file(run, tmp_path, monkeypatch):
    def interrupts(*_):
        raise KeyboardInterrupt

    (tmp_path / "run.nc").write_bytes(b"older file")
    monkeypatch.setattr(os, "fsync", interrupts)
    with pytest.raises(KeyboardInterrupt):
        bpls.save(run, tmp_path / "run.nc")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"older file"]
