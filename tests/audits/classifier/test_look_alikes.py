"""Images of different patients that are nearly the same keep a pass away, with the pairs and the way out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from memorisk.audits.classifier.evidence import Evidence, write_scores
from memorisk.audits.classifier.look_alikes import COLUMNS, TABLE, alike_images, equal_losses
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.classifier.reasons import look_alike_reasons
from memorisk.audits.classifier.result import LookAlikes
from memorisk.audits.classifier.run import audit_classifier
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.report.result import Result, redact
from memorisk.runs.workload import no_progress
from memorisk.statistics.verdicts.units import UnitNames
from tests.audits.made_evidence import twin_evidence

PATIENTS = UnitNames("patient", "patients")


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    """Eighty patients of two images each; one image of p003 is nearly one of p040, and one of p050 is one of p051."""
    root = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(11)
    pixels = [gaussian_filter(rng.normal(size=(32, 32)), 1.0) for _ in range(160)]
    pixels[81] = pixels[7] + 0.01 * rng.normal(size=(32, 32))
    rows = []
    for i, one in enumerate(pixels):
        grey = np.clip(128 + 200 * one, 0, 255).astype(np.uint8)
        Image.fromarray(grey).save(root / f"{i:03d}.png")
        rows.append((f"{i:03d}.png", "ab"[i // 2 % 2], f"p{i // 2:03d}"))
    (root / "102.png").write_bytes((root / "100.png").read_bytes())
    pd.DataFrame(rows, columns=["image", "label", "patient"]).to_csv(root / "table.csv", index=False)
    return root / "table.csv"


def test_near_copies_across_patients_are_pairs_and_equal_pixels_are_merged_before(people: Path) -> None:
    options = ImageOptions(group_column="patient")
    store = build_store(load_manifest(people, options), options, processes=1)
    groups = store.manifest.groups.copy()
    groups[groups == "p051"] = "p050"
    part = np.full(len(groups), "canary", dtype=object)
    part[[7]] = "test"
    alike = alike_images(store, groups, part, no_progress)
    assert tuple(alike.table.columns) == COLUMNS
    assert alike.why_not == ""
    assert alike.table[["pair", "group", "part"]].to_numpy().tolist() == [
        [1, "p003", "test"], [1, "p040", "canary"]
    ]  # fmt: skip
    part[:] = "train"
    assert alike_images(store, groups, part, no_progress).n_pairs == 0
    few = np.arange(8)
    small = replace(store, images=store.images[few], manifest=store.manifest.subset(few),
                    pixel_hashes=store.pixel_hashes[few])  # fmt: skip
    (finding,) = look_alike_reasons(alike_images(small, groups[few], part[few], no_progress), PATIENTS)
    assert finding.bears_on == "doubt"
    assert "could not be seen in the images" in finding.text


def test_the_doubt_counts_pairs_and_names_the_way_out() -> None:
    pair = pd.DataFrame({"pair": [1, 1], "image": ["a", "b"]})
    (finding,) = look_alike_reasons(LookAlikes(pair, "nearly the same"), PATIENTS)
    assert finding.text.startswith("1 pair of images of different patients is nearly the same: one person under two")
    assert "one id for each person" in finding.remedy
    assert finding.gravity == "first"
    assert look_alike_reasons(LookAlikes(pair, "nearly the same"), PATIENTS, one_image=True)
    blind = LookAlikes(pair.head(0), "nearly the same", "too few people")
    assert look_alike_reasons(blind, PATIENTS)
    assert not look_alike_reasons(blind, PATIENTS, one_image=True)
    assert not look_alike_reasons(replace(blind, why_not=""), PATIENTS)


def test_an_audit_brings_them_to_plan_verdict_and_page_without_ids(people: Path, tmp_path: Path) -> None:
    given = {"group_column": "patient", "models": 2, "epochs": 1, "model": "small_cnn", "processes": 1}
    plan = audit_classifier(people, out=tmp_path / "run", dry_run=True, **given)
    assert any("1 pair of images of different patients is nearly the same" in note for note in plan.notes)
    found = audit_classifier(people, out=tmp_path / "run", **given)
    assert isinstance(found, Result)
    assert found.status != "pass"
    assert any("1 pair of images of different patients is nearly the same" in reason for reason in found.why)
    assert set(found.tables[TABLE]["group"]) == {"p003", "p040"}
    assert "p040" in (tmp_path / "run" / "report.html").read_text()
    hidden = audit_classifier(people, out=tmp_path / "hidden", pseudonymise=True, redact=True, **given)
    assert isinstance(hidden, Result)
    table = Result.load(tmp_path / "hidden").tables[TABLE]
    assert not {"p003", "p040", "007.png", "081.png"} & set(table["group"]) | set(table["image"]) & {"007.png"}
    assert "Perhaps one person under two ids" in (tmp_path / "hidden" / "report.html").read_text()
    assert list(redact(hidden).tables[TABLE].columns) == ["pair", "part", "similarity"]


def with_copy(evidence: Evidence, source: int, copy: int) -> Evidence:
    """Give one item the losses of another one under every model; who saw it stays."""
    changed = {}
    for name in ("loss_a", "loss_b"):
        losses = getattr(evidence, name).copy()
        losses[:, copy] = losses[:, source]
        changed[name] = losses
    return replace(evidence, **changed)


def test_equal_losses_under_two_patients_are_a_pair() -> None:
    evidence = twin_evidence(sizes={"a": 60, "b": 60}, n_test=20, n_seeds=4, seed=3)
    assert equal_losses(evidence).n_pairs == 0
    canary, test = np.flatnonzero(evidence.items.split == "canary")[[2, 9]], np.flatnonzero(
        evidence.items.split == "test"
    )  # fmt: skip
    alike = equal_losses(with_copy(evidence, canary[0], canary[1]))
    assert sorted(alike.table["group"]) == sorted(evidence.items.group[canary].astype(str))
    across = equal_losses(with_copy(evidence, canary[0], test[0]))
    assert sorted(across.table["part"]) == ["canary", "test"]
    one = replace(evidence.items, group=np.full(len(evidence.items), "one", dtype=object))
    assert equal_losses(replace(with_copy(evidence, canary[0], canary[1]), items=one)).n_pairs == 0


def test_saturated_and_rounded_losses_are_no_pairs() -> None:
    """Images that all models answer surely share the loss 0; rounding lets others meet under some models."""
    evidence = twin_evidence(sizes={"a": 300}, n_test=100, n_seeds=8, seed=4)
    for digits in (2, 4):
        rounded = replace(evidence, loss_a=evidence.loss_a.round(digits), loss_b=evidence.loss_b.round(digits))
        assert equal_losses(rounded).n_pairs == 0
    sure = np.arange(len(evidence.items)) % 3 == 0
    flat = {name: np.where(sure, 0.0, getattr(evidence, name)) for name in ("loss_a", "loss_b")}
    assert equal_losses(replace(evidence, **flat)).n_pairs == 0


def test_losses_of_one_image_under_two_patients_keep_a_pass_away(tmp_path: Path) -> None:
    evidence = twin_evidence(sizes={"a": 60, "b": 60}, n_test=20, n_seeds=4, seed=3)
    canary = np.flatnonzero(evidence.items.split == "canary")
    write_scores(tmp_path / "losses.parquet", with_copy(evidence, canary[2], canary[9]))
    found = audit_losses(tmp_path / "losses.parquet", out=tmp_path / "run")
    assert found.status != "pass"
    assert any("the same by their losses under every model" in reason for reason in found.why)
    assert len(found.tables[TABLE]) == 2
