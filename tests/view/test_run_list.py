"""What the list of runs says of a run that is going on, and of one that was killed."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import memorisk
from memorisk.report.kinds import kind_of
from memorisk.runs.errors import InputError
from memorisk.runs.folder import STAGE
from memorisk.runs.locks import LOCK
from memorisk.view.run_list import RunEntry, find_runs
from tests.audits.synthetic.making import digits


def test_a_running_audit_shows_its_stage_and_a_killed_one_how_far_it_came(tmp_path: Path) -> None:
    place, left = tmp_path / "runs", tmp_path / "left"
    seen: list[RunEntry] = []

    def look(stage: str, done: int, total: int) -> None:
        """Look as a viewer would beside the run, and keep what a kill would leave."""
        if stage in ("training", "scoring"):
            seen.extend(find_runs([place]))
        if stage == "scoring":
            shutil.copytree(place, left)

    images = digits()[:60, :, :, 0]
    labels, patients = np.arange(60) // 2 % 2, np.arange(60) // 2
    data = images, labels, patients
    memorisk.audit_classifier(data, out=place / "run", progress=look, models=2, epochs=1, processes=1)
    assert {entry.state for entry in seen} == {"running"}
    assert seen[0].progress.startswith("training: 0 %")
    assert seen[-1].progress.startswith("scoring; 2 models trained")
    (done,) = find_runs([place])
    assert (done.state, done.progress) == ("done", "")
    assert not (place / "run" / STAGE).exists()

    (killed,) = find_runs([left])
    assert killed.state == "broken"
    assert killed.progress.startswith("scoring; 2 models trained")
    (left / "run" / STAGE).write_text('{"stage": "<b>", "done": 1e999, "total": 1}')
    (killed,) = find_runs([left])
    assert killed.progress == "last event: trained; 2 models trained"


def test_audits_of_sets_are_listed_from_their_first_stage_on(tmp_path: Path) -> None:
    pixels = digits()[:, :, :, 0]
    train, drawn, held = (pixels[part] for part in (slice(0, 120), slice(120, 150), slice(150, 300)))
    place, left = tmp_path / "runs", tmp_path / "left"
    seen: list[RunEntry] = []

    def look(stage: str, done: int, total: int) -> None:
        """Look as a viewer would, and keep what a kill would leave."""
        if place.exists() and len({entry.progress for entry in seen}) < 5:  # each look at a held run waits
            seen.extend(find_runs([place]))
            if not left.exists():
                shutil.copytree(place, left)

    given = {"train": (train, range(120)), "synthetic": drawn, "held_out": (held, range(150))}
    memorisk.audit_synthetic(**given, out=place / "set", progress=look, detector=("pixels",))
    assert {(entry.state, entry.question) for entry in seen} == {("running", kind_of("synthetic").question)}
    assert len({entry.progress for entry in seen}) > 3
    assert [entry.state for entry in find_runs([place])] == ["done"]

    assert [path.name for path in (left / "set").iterdir() if path.name != LOCK] == [STAGE]
    with pytest.raises(InputError, match="no run is in or below it"):
        find_runs([left])
    memorisk.audit_synthetic(**given, out=left / "set", detector=("pixels",))
    assert [entry.state for entry in find_runs([left])] == ["done"]

    with pytest.raises(InputError):
        memorisk.audit_synthetic(**given, out=tmp_path / "a" / "b", detector=("pixels",), review=tmp_path / "none.csv")
    assert not (tmp_path / "a").exists()
