"""The benchmark of copies as it is run: what is recognised at which threshold, and where thresholds come from."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memorisk
from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.graded import augmented
from memorisk.images.pixels import hash_pixels
from memorisk.studies.pairs.copies import benchmark_copies, plan_copies
from memorisk.studies.pairs.detectors import read_detector
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.figures import figure_1_frame
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.studies.pairs.scores import IMAGES, MEAN, OWN
from memorisk.studies.pairs.similarity import copies_store, open_similarity
from tests.commands import answer, refusal
from tests.report.chromium import Chromium, find_chromium
from tests.studies.pairs.conftest import GROUPS, patients, settings, stored, two_sets
from tests.studies.pairs.test_reid import row, written

pytestmark = pytest.mark.usefixtures("drawn")

Run = tuple[Path, PairBenchmark]


def test_a_copy_is_recognised_at_a_threshold_that_validation_made(people: Path, headed: Path, copied: Run) -> None:
    """The whole of it once more, a step at a time, for one detector and one family."""
    out, found = copied
    store, d = stored(people, **GROUPS), found.division
    judge = open_similarity(read_detector(str(headed)), store, d.rows(TEST), size=None, precision="auto", device="cpu")
    folder = next(f.parent for f in (out / "cells").glob("*/cell.json") if '"Siamese"' in f.read_text())
    pairs = np.load(folder / "pairs.npz")
    negative = pairs["validation/0/negative"]
    threshold = min(t for t in np.unique(negative) if (negative < t).mean() >= 0.5)
    told = row(found.table("thresholds").ours, detector="Siamese", rule="50 % specificity")
    assert (told["threshold"], told["made_from"]) == (threshold, OWN)
    rows = d.rows(TEST)
    chosen = np.sort(np.random.default_rng([0, 0]).choice(rows, 20, replace=False))
    groups = d.groups[chosen].astype(str)
    recall = found.figures["recall"]
    for strength in FAMILIES["blur"]:
        made = augmented(store.images, chosen, "blur", strength, seed=0)
        copies = copies_store(store, made, chosen, [hash_pixels(image) for image in made])
        hit = pd.Series(judge.copies(copies, chosen) >= threshold, dtype=float)
        told = row(recall, detector="Siamese", rule="50 % specificity", family="blur", strength=strength)
        assert np.isclose(told["recall"], hit.groupby(groups).mean().mean())
        assert np.isclose(told["recall_paper"], hit.mean())
        assert (told["n_images"], told["n_identities"]) == (20, len(set(groups)))


def test_the_strongest_are_averaged_over_families(copied: Run) -> None:
    _, found = copied
    recall = found.figures["recall"]
    for told in found.table("figure_4").ours.to_dict("records"):
        strongest = [
            row(recall, detector=told["detector"], rule=told["rule"], family=family, strength=FAMILIES[family][-1])
            for family in ("blur", "darkening")
        ]
        assert np.isclose(told["recall"], np.mean([r["recall"] for r in strongest]))
        assert told["recall_low"] <= told["recall"] <= told["recall_high"]
    apart = row(found.table("differences").ours, first="NCC", rule="50 % specificity", family="all, strongest")
    a, b = (row(found.board, detector=name)["recall"] for name in ("NCC", "MSE"))
    assert np.isclose(apart["difference"], a - b)


def test_the_table_by_family_is_the_end_of_the_figure(copied: Run) -> None:
    _, found = copied
    told = row(found.table("strongest").ours, detector="Siamese", rule="95 % recall")
    for family in ("blur", "darkening"):
        last = row(found.figures["recall"], detector="Siamese", rule="95 % recall", family=family,
                   strength=FAMILIES[family][-1])  # fmt: skip
        assert (told[family], told[f"{family}_low"]) == (last["recall"], last["recall_low"])


def test_ncc_sees_through_darkening(copied: Run) -> None:
    _, found = copied
    recall = found.figures["recall"]
    rows = [r for r in recall.to_dict("records") if r["detector"] == "NCC" and r["family"] == "darkening"]
    assert len(rows) == 2 * len(FAMILIES["darkening"])
    assert all(r["recall"] == 1.0 for r in rows)


def test_half_of_new_pairs_are_told_apart(copied: Run) -> None:
    _, found = copied
    for told in found.table("thresholds").ours.to_dict("records"):
        if told["rule"] == "50 % specificity":
            assert 0.3 < told["specificity"] < 0.7


def test_a_set_without_identities_has_its_own_threshold_or_the_mean_of_the_others(tmp_path: Path) -> None:
    told = {"group_column": "group", "dataset_column": "dataset", "detectors": ("mse",), "families": ("jpeg",)}
    found = benchmark_copies(two_sets(tmp_path), out=tmp_path / "run", no_identities="mean", **told)
    cuts = found.table("thresholds").ours
    for rule in ("50 % specificity", "95 % recall"):
        chest, skin = (row(cuts, dataset=s, rule=rule) for s in ("chest", "skin"))
        assert (chest["made_from"], skin["made_from"]) == (OWN, MEAN)
        assert chest["threshold"] == skin["threshold"]
    by = {
        s: row(found.table("figure_4").ours, dataset=s, rule="95 % recall") for s in ("chest", "skin", "Macro average")
    }
    assert np.isclose(by["Macro average"]["recall"], (by["chest"]["recall"] + by["skin"]["recall"]) / 2)
    assert found.board["recall_95"].notna().all()
    own = benchmark_copies(tmp_path / "table.csv", out=tmp_path / "run", **told)
    skin = row(own.table("thresholds").ours, dataset="skin", rule="50 % specificity")
    assert skin["made_from"] == IMAGES
    assert skin["threshold"] != row(cuts, dataset="skin", rule="50 % specificity")["threshold"]
    assert row(own.table("thresholds").ours, dataset="skin", rule="95 % recall")["made_from"] == MEAN


def test_without_any_identities_pairs_of_two_images_make_the_threshold(tmp_path: Path) -> None:
    source = patients(tmp_path / "images", [1] * 20)
    found = benchmark_copies(source, out=tmp_path / "run", detectors=("mse", "ncc"), families=("blur",))
    cuts = found.table("thresholds").ours
    assert row(cuts, detector="MSE", rule="50 % specificity")["made_from"] == IMAGES
    assert np.isnan(row(cuts, detector="MSE", rule="95 % recall")["threshold"])
    assert set(found.figures["recall"]["rule"]) == {"50 % specificity"}
    assert (found.division.patients(VALIDATION), found.division.patients(TEST)) == (6, 14)


def test_families_join_and_nothing_is_computed_again(people: Path, headed: Path, copied: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    told: dict[str, Any] = {**GROUPS, "detectors": ("mse", "pixels:4"), "test_images": 5}
    benchmark_copies(people, out=out, families=("blur",), **told)
    times = {p: p.stat().st_mtime_ns for p in (out / "cells").rglob("*.npz")}
    plan = plan_copies(people, out=out, families=("blur", "jpeg"), **told)
    assert not any(plan.cells.values())
    found = benchmark_copies(people, out=out, families=("blur", "jpeg"), **told)
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert set(found.figures["recall"]["family"]) == {"blur", "jpeg"}
    before = written(copied[0])
    again = settings(headed) | {"families": ("blur", "darkening"), "test_images": 20}
    again["reid"] = copied[1].options.reid  # pyright: ignore[reportAttributeAccessIssue]
    benchmark_copies(people, out=copied[0], **again)
    assert written(copied[0]) == before
    assert not [p for p in copied[0].rglob("*") if p.suffix in (".npy", ".png")]


def test_figure_1_sets_both_benchmarks_beside_each_other(identified: Run, copied: Run) -> None:
    frame = copied[1].figures["figure_1"]
    assert set(frame["detector"]) == {"MSE", "NCC", "SSIM", "Siamese", "Small"}
    told, auc = row(frame, detector="NCC"), row(identified[1].board, detector="NCC")["auc"]
    assert (told["auc"], told["recall"]) == (auc, row(copied[1].board, detector="NCC")["recall"])
    assert not len(figure_1_frame(identified[1].board, pd.DataFrame()))
    lone = replace(copied[1], board=copied[1].board.assign(detector="other")).board
    assert not len(figure_1_frame(identified[1].board, lone))


def test_what_cannot_be_run_is_refused(people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    command = ("bench", "copies", people, "--out", out, "--group-from", r"(p\d+)_")
    assert "Did you mean 'blur'" in refusal(capsys, *command, "--families", "blurr")
    assert "test-images" in refusal(capsys, *command, "--test-images", "-1")
    np.savez(tmp_path / "f.npz", features=np.ones((96, 2), np.float32))
    assert "computed already" in refusal(capsys, *command, "--detectors", tmp_path / "f.npz")
    assert "no finished run of bench reid" in refusal(capsys, *command, "--reid", tmp_path)
    assert not out.exists()
    code, shown, _ = answer(capsys, *command, "--detectors", "mse", "--families", "jpeg", "--test-images", "5")
    assert code == 0
    assert "recognises most of the strongest copies" in shown
    assert "another kind" not in refusal(capsys, *command, "--detectors", "mse", "--test-images", "6")
    assert inspect.unwrap(memorisk.benchmark_copies) is inspect.unwrap(benchmark_copies)


@pytest.mark.parametrize("width", [320, 1280])
def test_the_page_in_a_browser(copied: Run, width: int) -> None:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    page = copied[0] / "report.html"
    with Chromium(path) as browser:
        browser.open(page, width=width)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
        assert browser.requests() == [page.resolve().as_uri()]
        assert browser.evaluate("document.querySelectorAll('figure.drawing').length") == 1 + 4  # 1, 4, and 5 twice
