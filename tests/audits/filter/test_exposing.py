"""Whom rejected images expose, apart from those at whom a score only points; and a set of which nothing is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.filter.decisions import exposed_patients
from memorisk.audits.filter.options import filter_options
from memorisk.audits.filter.result import ExposedPatients, FilterNumbers
from memorisk.audits.filter.screening import Matches, Screening
from memorisk.audits.filter.verdict import kept_verdict
from memorisk.audits.filter.wording import exposed_as
from memorisk.cli.show.runs import show_outcome
from memorisk.images.copies.near_copies import ORIENTATIONS, SamePixels
from memorisk.report.numbers import from_json, to_json
from memorisk.report.result import Result
from tests.audits.filter.conftest import run
from tests.audits.filter.making import OF, digit_sets

NAMES = ("n_exposed", "n_identical", "n_by_score", "n_by_score_singled_out")


@pytest.fixture(scope="module")
def nothing(place: Path) -> Result:
    """A threshold that rejects everything, an image with the pixels of a training image among it, in ``nothing``."""
    return run(place, "nothing", threshold=-1e6, families=("rotation",))


def screened() -> Screening:
    """Two images by their pixels (b, one that others reach as well), then by scores: a alone, c among others, none."""
    matches = Matches(
        score=np.array([0.0, 0.0, -1.0, -1.0, -9.0]),
        row=np.array([1, 1, 0, 2, 3]),
        second=np.array([-1.0, -9.0, -9.0, -1.5, np.nan]),
    )
    return Screening(
        (-2.0,), (matches,), (), SamePixels(np.array([1, 1, -1, -1, -1]), np.array([0, 4, -1, -1, -1])), np.full(5, -1)
    )


def test_exposed_are_identical_pixels_and_whom_a_score_singles_out() -> None:
    found, patients = screened(), np.array(["a", "b", "c", "d"])
    assert to_json(exposed_patients(found, patients)) == dict(zip(NAMES, (2, 1, 2, 1), strict=True))
    assert found.singled_out.tolist() == [True, True, True, False, False]
    same = np.array(["b", "b", "c", "d"])  # who is copied already is not counted again
    assert to_json(exposed_patients(found, same)) == dict(zip(NAMES, (1, 1, 1, 0), strict=True))
    unlike = replace(found, same=SamePixels(np.full(5, -1), np.full(5, -1)))
    assert to_json(exposed_patients(unlike, patients)) == dict(zip(NAMES, (2, 0, 3, 2), strict=True))
    assert exposed_patients(None, patients) == ExposedPatients()
    elsewhere = replace(unlike, identical_other=np.array([-1, -1, 0, -1, -1]))  # a is not whom the third image shows
    assert to_json(exposed_patients(elsewhere, patients)) == dict(zip(NAMES, (1, 0, 2, 1), strict=True))
    assert elsewhere.reason.tolist() == ["score", "score", "same pixels, further part", "score", ""]
    assert elsewhere.singled_out.tolist() == [False, True, False, False, False]


def test_patients_at_whom_a_score_only_points_are_not_called_exposed(nothing: Result, place: Path, capsys) -> None:
    v, groups = nothing.verdict, nothing.per_group
    assert tuple(v[name] for name in NAMES) == (1, 1, len(groups) - 1, 0)
    assert len(groups) > 10
    assert groups["n_singled_out"].tolist() == [1, *[0] * (len(groups) - 1)]
    assert groups["identical"].tolist() == [True, *[False] * (len(groups) - 1)]
    page = (place / "nothing" / "report.html").read_text()
    assert f"for several patients are nearest to {len(groups) - 1} more" in v["exposed"]
    assert "The same threshold rejects 100" in v["exposed"]
    assert v["exposed"] in page
    assert "Exposed training patients" not in page
    show_outcome(nothing, "filter", place / "nothing", as_json=False)
    out = capsys.readouterr().out
    assert "Exposed patients: 1 (1 by pixels, 0 by score)" in out
    assert f"Similar, not singled out: {len(groups) - 1} patients (false alarms: " in out


def test_nothing_kept_is_told_apart_from_no_guarantee(nothing: Result, place: Path, capsys) -> None:
    v, page = nothing.verdict, (place / "nothing" / "report.html").read_text()
    assert (v["status"], v["n_kept"], v["audited"]) == ("undecided", 0, None)
    assert "every one of the" in v["why"][0]
    assert "a higher --threshold" in v["what_would_decide"][0]
    assert "The threshold that the guarantee asks for" not in page
    assert "Nothing was kept" in page
    show_outcome(nothing, "filter", place / "nothing", as_json=False)
    assert "NOTHING WAS KEPT" in capsys.readouterr().out
    numbers = nothing.summary["numbers"]
    promised = numbers | {"threshold_by": "guarantee", "guarantee": "a promise", "real_rejected": None}
    found = kept_verdict("filter", from_json(FilterNumbers, promised), filter_options(OF | {"fail_on": "never"}))
    assert (found["status"], found["gate"]) == ("undecided", "never")
    assert "a detector that tells copies" in found["what_would_decide"][0]


def test_a_training_image_mirrored_or_turned_is_a_certain_copy(place: Path) -> None:
    train = digit_sets()["train"][:8]
    (place / "oriented").mkdir()
    for row, image in enumerate(train):
        side = image[:, ::-1, 0] if row >= 4 else image[..., 0]
        Image.fromarray(np.ascontiguousarray(np.rot90(side, -row if row < 4 else row))).save(
            place / "oriented" / f"s{row}.png"
        )
    found = run(place, "found", made="oriented", families=("noise:0.1",))
    assert found.per_image["reason"].tolist() == ["same pixels"] * 8
    assert found.per_image["nearest_image"].tolist() == [f"t{row:03d}_0.png" for row in range(8)]
    assert found.per_image["orientation"].tolist() == list(ORIENTATIONS[:8])
    assert (found.per_image["score"] < found.per_image["threshold"]).sum() > 4  # the detector alone lets them pass
    assert (found.verdict["n_identical"], found.verdict["n_by_score"]) == (8, 0)


def test_nobody_is_called_exposed_by_a_score_alone() -> None:
    by_score = ExposedPatients(n_exposed_patients=2, n_by_score_patients=3, n_singled_patients=2)
    assert exposed_as(by_score) == "singled out"
    assert exposed_as(replace(by_score, n_identical_patients=1)) == "exposed"
