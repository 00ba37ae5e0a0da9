"""The study of accepted labels: its stored splits hold their bounds, and the report is theirs."""

import numpy as np
import pytest

from validation.accept.__main__ import REPORT, SPLITS, STORE
from validation.accept.report import Row, report, share_wrong, standard_error
from validation.accept.splits import LEVELS, SETTINGS, WAYS, accepted_labels


@pytest.fixture(scope="module")
def stored():
    return {setting: STORE.read(setting) for setting in SETTINGS}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", LEVELS)
def test_the_realised_share_of_wrong_labels_is_within_its_bound(stored, way, level):
    for setting, records in stored.items():
        assert len(records) == SPLITS, setting
        share = share_wrong(records, way, level)
        assert share.mean() <= level + 2 * standard_error(share), (setting, share.mean())


def test_the_bound_is_no_empty_one(stored):
    """Where a share of wrong labels far above the bound would be taken with all candidates, some are accepted even so."""
    sonar = stored[SETTINGS[1]]
    wrong = np.mean([record["leave-one-out wrong"] / record["candidates"] for record in sonar.values()])
    taken = np.mean([record["leave-one-out 0.2"][0] / record["candidates"] for record in sonar.values()])
    assert wrong > 0.22 and taken > 0.1


def test_rows_that_could_fail_accept_labels_and_would_be_wrong_too_often_by_all():
    wrong = {"candidates": 4, "split wrong": 2}
    of = {
        level: Row.of(
            SETTINGS[0], {0: wrong | {f"split {level:g}": [taken, 1]}, 1: wrong | {f"split {level:g}": [0, 0]}}, "split", level
        )
        for level, taken in ((0.2, 2), (0.1, 0), (0.6, 2))
    }
    assert [row.could_fail for row in of.values()] == [True, False, False]
    assert of[0.2].cells()[4:] == ["0.250 ± 0.250", "0.500 (50%)", "50%", "25%", "0.500"] and of[0.1].cells()[5] == "none is"


def test_the_report_is_that_of_the_stored_splits(stored):
    assert report(stored) == REPORT.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[3]])
def test_a_split_is_what_is_stored(stored, setting):
    assert accepted_labels(setting, 0) == stored[setting][0]
