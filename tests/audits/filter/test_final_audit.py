"""The audit of the kept set decides: what a promise lets through is no pass, and calibration people may be the null."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.filter.final_audit import auditor_names
from memorisk.audits.filter.options import filter_options
from memorisk.audits.filter.page import filter_page
from memorisk.audits.filter.run import kept_sha256
from memorisk.audits.filter.screening import open_detectors
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.report.statements.officer.page import officer_page
from memorisk.report.statements.statement import FOUND
from memorisk.runs.errors import InputError
from memorisk.statistics.copies.reversed_queries import reversed_queries
from memorisk.statistics.copies.singled_out import closeness, tail_cut
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.pairs.guarantee import miss_guarantee
from tests.audits.filter.conftest import run
from tests.audits.filter.making import OF, digit_sets
from tests.commands import answer
from tests.thorough import thorough

LOOSE = [
    {"miss_rate": 0.9, "confidence": 0.5, "families": ("darkening:1.1",)},
    {"miss_rate": 0.2, "families": ("rotation:10", "jpeg:70")},
]
"""Promises about other copies than those in the set."""
HONEST: dict[str, Any] = {"families": ("noise:0.1",), "auditor": "pixels:4", "plant_kinds": ("exact",)}


@pytest.fixture(scope="module")
def cropped(place: Path) -> None:
    """A set of digits with six cropped training images among it, in ``cropped``."""
    sets = digit_sets()
    (place / "cropped").mkdir()
    for row, image in enumerate(sets["set"][20:]):
        Image.fromarray(image[..., 0]).save(place / "cropped" / f"s{row:03d}_0.png")
    for row, image in enumerate(sets["train"][:6, :, :, 0]):
        window = Image.fromarray(image).crop((0, 0, 7, 7)).resize((8, 8), Image.Resampling.BILINEAR)
        window.save(place / "cropped" / f"z{row}_0.png")


@pytest.mark.usefixtures("cropped")
@pytest.mark.parametrize(("number", "promise"), [(0, LOOSE[0]), thorough(1, LOOSE[1])])
def test_a_promise_about_other_copies_does_not_open_the_gate(place: Path, number: int, promise: dict) -> None:
    out = place / f"loose-{number}"
    found = run(place, out.name, made="cropped", detector="pca:8", auditor="pixels", plant_kinds=(), **promise)
    kept = set(found.per_image["image"][found.per_image["kept"]])
    assert found.verdict["guarantee"]
    assert any(name.startswith("z") for name in kept)
    assert found.status != "pass"
    assert not gate(out, images=[out / "kept"]).passed


@pytest.fixture(scope="module")
def honest(place: Path) -> Result:
    """A filter of a set with noised copies, which it leaves out, in ``honest``."""
    return run(place, "honest", **HONEST)


def test_the_verdict_is_that_of_an_audit_of_the_kept_images(
    honest: Result, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = place / "honest"
    alone = audit_synthetic(
        place / "train", out / "kept", held_out=place / "new", out=place / "alone", detector=(HONEST["auditor"],),
        group_from=OF["group_from"], plant_kinds=HONEST["plant_kinds"],
    )  # fmt: skip
    assert isinstance(alone, Result)
    assert (honest.status, honest.why) == (alone.status, alone.why)
    inner = json.loads((out / "audit" / "verdict.json").read_text(encoding="utf-8"))
    assert inner == alone.verdict
    assert answer(capsys, "report", out / "audit")[0] == 0
    audit = make_statement(out).audits[0]
    own = make_statement(place / "alone").audits[0]
    assert (audit.kind, audit.status, audit.why) == ("filter", own.status, own.why)
    assert set(own.figures) <= set(audit.figures)
    assert {f.name for f in own.figures if f.name.startswith(FOUND)} == {f"{FOUND}exact"}
    assert audit.data == own.data


def test_a_gate_asks_a_filter_for_its_kinds(honest: Result, place: Path) -> None:
    found, out = honest, place / "honest"
    assert found.status == "pass"
    refused = gate(out, images=[out / "kept"])
    assert not refused.passed
    assert "run 1 (filter) passed without looking for copies that are flipped" in refused.line
    opened = gate(out, images=[out / "kept"], kinds=("exact",))
    assert (opened.passed, opened.kinds) == (True, ("exact",))
    page = render_page(officer_page(make_statement(out)))
    left, people = found.verdict["n_rejected"], found.verdict["n_identical"] + found.verdict["n_by_score"]
    heading = page.index(f"{left} generated images, near to {people} training patients, were left out")
    assert heading < page.index("No sign was found that kept images are copies")
    assert f"{left} images left out, {found.verdict['n_kept']} kept" in render_page(filter_page(found))


@pytest.mark.usefixtures("honest")
def test_a_statement_refuses_another_audit_than_the_runs_own(place: Path) -> None:
    shutil.copytree(place / "honest", place / "exchanged")
    shutil.rmtree(place / "exchanged" / "audit")
    with pytest.raises(InputError, match="audit"):
        make_statement(place / "exchanged")
    run(place, "other", seed=1, **HONEST)
    shutil.copytree(place / "other" / "audit", place / "exchanged" / "audit")
    with pytest.raises(InputError, match="is not the audit with which"):
        make_statement(place / "exchanged")


def test_a_detector_that_took_no_part_audits() -> None:
    def auditors(*detectors: str, auditor: str | None = None) -> tuple[str, ...]:
        options = filter_options({"detector": detectors, "auditor": auditor})
        return auditor_names(options, open_detectors(options))

    assert auditors("pixels") == ("default",)
    assert auditors("default") == ("default",)
    assert auditors("default", auditor="pca:16") == ("pca:16",)
    with pytest.raises(InputError, match="which chooses the images itself"):
        auditors("pixels", "default", auditor="default")


def test_a_killed_audit_goes_on(honest: Result, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("memorisk.audits.synthetic.run.write_report", killed)
        with pytest.raises(KeyboardInterrupt):
            run(place, "killed", **HONEST)
    assert not (place / "killed" / "filter.json").exists()
    with pytest.raises(InputError, match="finished"):
        make_statement(place / "killed")
    again = run(place, "killed", **HONEST)
    assert again.verdict | {"audited": None} == honest.verdict | {"audited": None}
    assert make_statement(place / "killed").verdict.status == "pass"
    kept = place / "killed" / "filter.json"
    kept.write_text(kept.read_text().replace(kept_sha256(place / "killed"), "0" * 64))  # which no verdict holds
    with pytest.raises(InputError, match=r"filter\.json is damaged"):
        make_statement(place / "killed")


@pytest.mark.thorough
@pytest.mark.parametrize("calibrating", [True, False])
def test_calibration_people_may_be_the_null_of_the_audit(calibrating: bool) -> None:
    """Nobody is copied. Who lies far from all others has copies that are less alike, which ties both numbers."""
    rng, failed, singled, runs = np.random.default_rng(1), 0, 0, 200
    for _ in range(runs):
        train, made, people, fresh = (_people(rng, n) for n in (200, 200, 120, 120))
        noise = 0.2 * np.linalg.norm(people, axis=1, keepdims=True) / 2 * rng.normal(size=people.shape)
        threshold = miss_guarantee(-np.linalg.norm(noise, axis=1), miss_rate=0.05).threshold
        kept = made[-_nearest(made, train) < threshold]
        null = people if calibrating else fresh
        ours, theirs = _nearest(train, kept), _nearest(null, kept)
        asked = reversed_queries(ours, theirs)
        failed += bool(asked.listed.rejected.any()) or asked.p_ahead <= 0.05
        singled += bool((closeness(ours) > tail_cut(closeness(theirs), len(ours)).cut).any())
    assert clopper_pearson(failed, runs).low <= 0.05
    assert clopper_pearson(singled, runs).low <= 0.05


def _people(rng: np.random.Generator, n: int) -> np.ndarray:
    """[n, 4] vectors of very different lengths."""
    return rng.normal(size=(n, 4)) * np.exp(rng.normal(0, 0.5, (n, 1)))


def _nearest(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """[n] distance to the nearest of others."""
    return np.linalg.norm(some[:, None] - others[None], axis=2).min(axis=1)
