"""A check of a synthetic set that could not look keeps a pass away; an ordinary set has no such check."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memorisk.audits.comparison import second_look
from memorisk.audits.comparison.colours import NO_COLOURS, Colours
from memorisk.audits.release.integrity import open_finished_audit
from memorisk.audits.release.statement import describe_run
from memorisk.audits.synthetic import analysis
from memorisk.audits.synthetic.checks import blind_checks
from memorisk.audits.synthetic.result import SyntheticSummary
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.statistics.copies.singled_out import tail_cut
from tests.audits.synthetic.making import blended, digits, store_of

SETTINGS = {"detector": "pixels", "recall": 0.2, "plants": 12, "plant_kinds": ("exact", "flipped")}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def aligning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at few images: what is laid on one another takes most of the time."""
    monkeypatch.setattr(analysis, "look_again", second_look.look_again)
    monkeypatch.setattr(second_look, "MOST_IMAGES", 40)


def audited(train: np.ndarray, held: np.ndarray, synthetic: np.ndarray, **changes: Any) -> Result:
    """Audit of images of one patient each."""
    for name, images in (("train", train), ("held", held)):
        groups = [f"{name} {row}" for row in range(len(images))]
        np.savez(f"{name}.npz", images=images, groups=groups)
    np.savez("set.npz", images=synthetic)
    found = audit_synthetic("train.npz", "set.npz", held_out="held.npz", out="run", **SETTINGS | changes)
    assert isinstance(found, Result)
    return found


def sets(n_train: int, n_held: int, n_synthetic: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    images = digits()
    return images[:n_train], images[n_train : n_train + n_held], blended(images[600:], n_synthetic)


def reasons(found: Result) -> list[str]:
    """Codes of the checks that could not look."""
    return [check.reason for check in from_json(SyntheticSummary, found.summary).numbers.checks]


@pytest.mark.thorough
@pytest.mark.usefixtures("aligning")
def test_an_ordinary_set_passes_and_every_check_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "MOST_IMAGES", 120)  # of fewer digits, two people's may be as alike as copies
    found = audited(*sets(300, 300, 200))
    assert reasons(found) == []
    assert found.status == "pass", found.why


def test_few_held_out_patients_single_nobody_out_and_nothing_passes() -> None:
    found = audited(*sets(45, 5, 40))
    assert "few-held-out" in reasons(found)
    assert found.status == "undecided"
    assert any("5 held-out patients are too few to show how near" in why for why in found.why)
    assert any("--held-out with 100 patients or more" in way for way in found.what_would_decide)
    assert found.verdict["n_singled"] is None
    with open_finished_audit(Path("run")) as run:
        statement = describe_run(run)
    figures = {figure.name: figure.value for figure in statement.figures}
    assert figures["singled_out"] is None
    assert any("too few to tell a copy from chance." in text for text in statement.not_examined)


@pytest.mark.usefixtures("aligning")
def test_people_too_few_for_near_copies_and_for_the_second_look_keep_a_pass_away() -> None:
    found = audited(*sets(26, 2, 2))
    assert found.status != "pass"
    assert {"few-held-out", "no-near-threshold", "no-alignment-cut"} <= set(reasons(found))
    with open_finished_audit(Path("run")) as run:
        figures = {figure.name: figure.value for figure in describe_run(run).figures}
    assert [figures[name] for name in ("nearly_identical", "second_look", "singled_out")] == [None, None, None]
    assert Path("run/report.html").read_text().count("not known") >= 3


@pytest.mark.parametrize("other_kind", [False, True])
def test_a_shared_image_leaves_the_test_of_the_split(other_kind: bool) -> None:
    """One held-out patient with a training image is left out; the others are compared all the same."""
    train, held, synthetic = sets(120, 99, 60)
    held = np.rint(30 + 0.8 * held).astype(np.uint8) if other_kind else held
    found = audited(train, np.concatenate([held, train[:1]]), synthetic)
    assert found.verdict["n_held_shared_patients"] == 1
    assert found.verdict["unlike"]["n_groups"] == 119 + 99
    assert reasons(found) == []
    assert (found.verdict["unlike"]["p_value"] <= 0.01) == other_kind
    assert found.status == ("undecided" if other_kind else "pass"), found.why


@pytest.mark.parametrize(("plants", "reason"), [(40, "no-held-out-pairs"), (12, "no-pair-threshold")])
def test_pairs_that_nothing_is_compared_with_keep_a_pass_away(place: Path, plants: int, reason: str) -> None:
    images = zip(("train", "held", "set"), sets(120, 99, 60), "aba", strict=True)  # the held-out class is another
    train, held, synthetic = (
        store_of(
            pixels, place, name, groups=[f"{name} {row}" for row in range(len(pixels))], labels=label * len(pixels)
        )
        for name, pixels, label in images
    )
    table = synthetic.manifest.table.assign(source=train.manifest.images[:60])
    made = replace(synthetic, manifest=replace(synthetic.manifest, table=table))
    settings = SETTINGS | {"plants": plants, "paired": "source"}
    found = audit_synthetic(train, made, held_out=held, out="run", **settings)
    assert isinstance(found, Result)
    assert reasons(found) == [reason]
    assert found.status == "undecided"


def images_of(similarity: float | None = 0.9, n_near_left: int = 0, colours: Colours = NO_COLOURS) -> Any:
    rule = SimpleNamespace(chance=SimpleNamespace(similarity=similarity))
    return SimpleNamespace(
        sets=SimpleNamespace(held=object()), copies=SimpleNamespace(rule=rule, n_near_left=n_near_left, colours=colours)
    )


def findings(*cuts: Any, dismissed: int = 0, p: float | None = None, one_each: bool = False, unlike: Any = True) -> Any:
    by = [SimpleNamespace(singled=SimpleNamespace(near=near, lead=lead)) for near, lead in cuts]
    asked = SimpleNamespace(counted=SimpleNamespace(one_each=one_each))
    pixels = SimpleNamespace(n_dismissed_near_pairs=dismissed, dismissed_near_p=p)
    return SimpleNamespace(by=by, queries=asked, pixels=pixels, unlike=unlike)


def test_each_check_that_could_not_look_is_listed_by_its_reason() -> None:
    some, few, equal = (tail_cut(values, 300) for values in (np.arange(100.0), np.arange(5.0), np.zeros(100)))
    looked: Any = SimpleNamespace(looked=True)

    def listed(found: Any = None, images: Any = None, pairs: tuple[Any, ...] = (), look: Any = looked) -> list[str]:
        checks = blind_checks(images or images_of(), found or findings((some, some)), pairs, look)
        assert all(check.is_doubt for check in checks)
        return [check.reason for check in checks]

    assert listed() == []
    assert listed(findings((equal, some))) == []  # what one rule misses, the power of all counts
    assert listed(findings((equal, equal), (some, equal))) == []
    assert listed(findings((equal, equal))) == ["equal-distances"]
    assert listed(findings((few, few))) == ["few-held-out"]
    assert listed(images=images_of(None)) == ["no-near-threshold"]
    assert listed(images=images_of(0.9, 7)) == ["near-pairs-left"]
    assert listed(images=images_of(colours=Colours(could_not_look=True))) == ["colours-not-compared"]
    assert listed(look=None) == listed(look=SimpleNamespace(looked=False)) == ["no-alignment-cut"]
    assert listed(findings((some, some), unlike=None)) == ["no-random-split"]
    assert listed(findings((some, some), dismissed=3, p=0.6)) == []
    assert listed(findings((some, some), dismissed=3)) == ["dismissals-not-compared"]
    assert listed(findings((some, some), dismissed=3, p=0.6, one_each=True)) == ["dismissals-not-compared"]
    without = SimpleNamespace(rate=None, excess=None)
    alone = SimpleNamespace(rate=object(), excess=SimpleNamespace(estimate=math.nan))
    assert listed(pairs=(without,)) == ["no-pair-threshold"]
    assert listed(pairs=(without, alone)) == ["no-held-out-pairs"]
    assert listed(pairs=(without, SimpleNamespace(rate=object(), excess=SimpleNamespace(estimate=0.1)))) == []
