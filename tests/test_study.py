"""What the studies share: results on disk, and their commands."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from validation.paper import __main__ as command
from validation.paper.settings import CORE, QUICK, REAL, SETTINGS, Setting
from validation.paper.store import protocol
from validation.study.compute import fill
from validation.study.store import ResultsError, Store

CARS = Setting("cars", 32)


STUDY = textwrap.dedent(
    """
    import os, random, signal, sys, time
    from pathlib import Path
    import numpy as np
    from validation.paper.settings import Setting
    from validation.study.compute import fill
    from validation.study.store import Store

    SETTINGS = [Setting("cars", n) for n in (32, 30, 28)]

    def repeat(setting, number):
        time.sleep(0.01)
        return {"numbers": np.random.default_rng([setting.n, number]).random(400).tolist()}

    def start(folder):
        child = os.fork()
        if not child:
            fill(Store(folder, lambda setting: {}), [(each, 12) for each in SETTINGS], repeat, lambda source: None)
            os._exit(0)
        return child

    whole, broken = (Path(sys.argv[1]) / name for name in ("whole", "broken"))
    os.waitpid(start(whole), 0)
    child = start(broken)
    while len(list(broken.glob("*.json"))) < 3:
        time.sleep(0.001)
    time.sleep(random.random() / 5)
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it was finished before it was killed"
    os.waitpid(start(broken), 0)
    """
)


@pytest.mark.slow
def test_killed_at_a_random_point_and_restarted_it_gives_the_same_files(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, "-c", STUDY, str(tmp_path)], env=environment, check=True, stdout=subprocess.DEVNULL)
    whole, broken = (sorted((tmp_path / name).glob("*.json")) for name in ("whole", "broken"))
    assert [path.name for path in whole] == [path.name for path in broken]
    assert [path.read_bytes() for path in whole] == [path.read_bytes() for path in broken]
    assert all(path.read_text().count("numbers") == 12 for path in whole)


def test_every_setting_gets_its_first_repetitions_before_any_gets_more(tmp_path):
    store = Store(tmp_path, protocol)
    a, b = (Setting("cars", n) for n in (32, 30))
    store.add(a, 0, {})
    assert store.missing([(a, 3), (b, 2)]) == [(b, 0), (a, 1), (b, 1), (a, 2)]
    assert len({each.key for each in SETTINGS}) == len(SETTINGS) and all(each.repetitions >= 15 for each in SETTINGS)


def test_repetitions_are_the_same_in_turn_and_by_an_executor(tmp_path):
    wanted = [(Setting("cars", n), 3) for n in (32, 30)]

    def repeat(setting, number):
        return {"number": [setting.n, number]}

    stores = [Store(tmp_path / name, protocol) for name in ("turn", "threads")]
    with ThreadPoolExecutor(3) as executor:
        for store, by in zip(stores, (None, executor), strict=True):
            fill(store, wanted, repeat, lambda source: None, executor=by)
    files = [sorted((tmp_path / name).glob("*.json")) for name in ("turn", "threads")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]] and len(files[0]) == 2


def test_further_repetitions_have_the_core_methods_alone():
    sonar = REAL[0]
    assert sonar.methods_of(0) == sonar.methods and sonar.methods_of(sonar.repetitions) == CORE and sonar.wanted == 100


def test_results_of_another_protocol_are_refused_with_what_differs(tmp_path):
    Store(tmp_path, lambda setting: {"points": 21, "every": 20}).add(CARS, 0, {})
    with pytest.raises(ResultsError, match=r"cars.*\.json is of another protocol: points, draws differ\. Move it away\.$"):
        Store(tmp_path, lambda setting: {"points": 20, "every": 20, "draws": 4}).read(CARS)


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "{}", '{"protocol": {}}', '{"protocol": {}, "repetitions": {"0": 1}}', "\xff"]
)
def test_results_that_cannot_be_read_are_named(tmp_path, text, capsys):
    path = Store(tmp_path / "results" / "paper", protocol).path(QUICK[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SystemExit) as status:
        command.main(["--folder", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert status.value.code == 1 and path.name in said.replace(" ", "") and "Move it away." in said


def test_a_number_of_processes_is_one_or_more(capsys):
    with pytest.raises(SystemExit):
        command.main(["--jobs", "0"])
    assert "'0' is no number of processes. Give 1 or more, or a Dask cluster's address." in capsys.readouterr().err
