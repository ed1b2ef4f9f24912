"""Several findings an image: a row of each and one of all together, whose unit is the patient."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.evidence import WHOLE, Context, Evidence, Items
from memorisk.audits.classifier.finished_run import open_finished
from memorisk.audits.classifier.options import AnalysisOptions, options_from
from memorisk.audits.classifier.planning.plan import draw_parts, make_plan
from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.classifier.twins.trainings import score_logits
from memorisk.images.manifest import Manifest
from memorisk.report.result import Result
from memorisk.statistics.memorization.sign_flips import sign_flip_p_values
from memorisk.studies.rare_distinctive.rarity_cells import cell_from_run
from memorisk.training.engine.data import build_targets

OPTIONS, CONTEXT = AnalysisOptions(), Context(design="balanced")
FINDINGS = ("common", "often", "rare")
SHARES = (0.5, 0.3, 0.06)


def world(
    seed: int, *, patients: int = 150, seeds: int = 8, absent: float = 0.0, present: float = 0.0
) -> tuple[Evidence, str]:
    """Losses of twins, one image a patient; whoever has the rare finding is noisier; and the id of one patient.

    Args:
        seed: Of everything.
        patients: Of whom 15 % are the test part.
        seeds: Twin pairs.
        absent: By how much the first patient's loss falls, where it is trained on, at a finding that it does not have.
        present: The same at one that it has.
    """
    rng = np.random.default_rng([seed, 3])
    has = rng.random((patients, 3)) < SHARES
    has[0] = [True, False, False]
    has[~has.any(axis=1), 0] = True
    test = np.arange(patients) >= round(0.85 * patients)
    noise = np.where(has[:, 2], 0.6, 0.2)[None, :, None] * rng.normal(size=(2, seeds, patients, 3))
    each = 4 + noise.clip(-1, 1)  # [model, seeds, patients, findings] nats
    in_a = rng.random((seeds, patients)) < 0.5
    member = np.stack([in_a, ~in_a]) & ~test
    each[:, :, 0, 1] -= absent * member[:, :, 0]
    each[:, :, 0, 0] -= present * member[:, :, 0]
    image = np.array([f"p{i:03d}" for i in range(patients)], dtype=object)
    rows = [(i, f) for i in range(patients) for f in (*np.flatnonzero(has[i]), -1)]
    at, f = (np.array(column) for column in zip(*rows, strict=True))
    loss = np.where(f < 0, each.sum(axis=3)[:, :, at], each[:, :, at, f])
    items = Items(
        image[at],
        np.array([*FINDINGS, WHOLE], dtype=object)[f],
        image[at],
        np.where(test[at], "test", "canary").astype(object),
    )
    halves = {"loss": loss, "margin": -loss, "correct": loss < 4.2, "member": member[:, :, at]}
    matrices = {f"{name}_{half}": values[h] for name, values in halves.items() for h, half in enumerate("ab")}
    return Evidence(items, np.arange(seeds), "balanced", **matrices), str(image[0])


def listed(result: Result, patient: str) -> set[str]:
    """In which rows a patient is listed."""
    table = result.per_group
    return set(table.loc[table["flagged"] & (table["group"] == patient), "label"])


def test_losses_are_binary_cross_entropies_and_their_sum():
    table = pd.DataFrame({"image": [f"i{n:02d}" for n in range(90)], "label": ["a", "b", "a|c"] * 30})
    table = table.assign(group=table["image"], dataset="made", path=table["image"])
    images = Manifest(table=table, root=None, name="made")
    options = options_from({"head": "multi", "models": 2})
    plan = make_plan(images, draw_parts(images, [], options, 0), options)
    targets = build_targets(images.labels, "multi", classes=plan.parts.classes)
    logits = np.random.default_rng(0).normal(scale=3, size=(90, 3))
    found = score_logits(logits, plan, targets)
    naive = F.binary_cross_entropy_with_logits(
        torch.from_numpy(logits), torch.from_numpy(targets.values).double(), reduction="none"
    ).numpy()
    for i, (row, label) in enumerate(zip(plan.item_row, plan.items.label, strict=True)):
        if label == WHOLE:
            assert found["loss"][i] == pytest.approx(naive[row].sum(), rel=1e-12)
            assert found["correct"][i] == ((logits[row] > 0) == (targets.values[row] > 0)).all()
            p = np.exp(-naive[row].sum())
            assert found["margin"][i] == pytest.approx(np.log(p) - np.log1p(-p), rel=1e-9)
        else:
            assert found["loss"][i] == pytest.approx(naive[row, plan.parts.classes.index(label)], rel=1e-12)


@pytest.mark.parametrize(("how", "rows"), [("present", {"common", WHOLE}), ("absent", {WHOLE})])
def test_what_is_memorized_of_a_finding_that_is_not_there_shows_in_the_row_of_all(how, rows):
    evidence, patient = world(1, seeds=10, **{how: 3.0})
    result = analyse(evidence, OPTIONS, CONTEXT)
    assert listed(result, patient) == rows
    per_class = result.per_class.set_index("label")
    assert set(per_class.index) == {*FINDINGS, WHOLE}
    assert per_class.loc[WHOLE, "n"] == result.summary["n_images"] == 150
    assert result.summary["n_classes"] == 3
    both = result.per_image[(result.per_image["image"] == patient)].set_index("label")["M"]
    assert float(both.loc[WHOLE]) > 2  # pyright: ignore[reportArgumentType]


def test_attacks_on_everybody_take_each_image_once():
    evidence, _ = world(2)
    attacks = analyse(evidence, OPTIONS, CONTEXT).attacks
    assert set(attacks["label"]) == {"(all)", *FINDINGS}
    every = attacks[(attacks["label"] == "(all)") & (attacks["attack"] == "loss_threshold")].iloc[0]
    alone = analyse(evidence.select(evidence.items.label == WHOLE), OPTIONS, CONTEXT).attacks
    assert every["auc"] == alone[(alone["label"] == "(all)") & (alone["attack"] == "loss_threshold")].iloc[0]["auc"]
    assert every["n_groups"] == 150


def test_the_row_of_all_holds_its_level_over_patients():
    """One patient of each audit: binomial. Those with the rare finding are noisier and share a null with the others."""
    audits, level, small, rare_small, rare = 400, 0.05, 0, 0, 0
    for audit in range(audits):
        evidence, _ = world(1000 + audit, patients=80, seeds=5)
        items, sign, gap = evidence.items, evidence.sign, evidence.gap
        own, test = (items.label == WHOLE) & (items.split != "test"), (items.label == WHOLE) & (items.split == "test")
        listing = sign_flip_p_values(gap[:, own], sign[:, own], items.group[own], gap[:, test], items.group[test])
        with_rare = np.isin(listing.unit, items.group[items.label == "rare"])
        rare_small += int((listing.p_value[with_rare] <= level).sum())
        rare += with_rare.sum()
        small += listing.p_value[np.random.default_rng(audit).integers(len(listing.unit))] <= level
    assert small <= stats.binom.isf(1e-4, audits, level)
    # docs/findings.md: the level is one over patients, not of those with a rare finding
    assert level < rare_small / rare


def test_whether_models_beat_the_findings_frequencies():
    evidence, _ = world(4, patients=200)
    blind = analyse(evidence, OPTIONS, CONTEXT)  # 12 nats an image, where frequencies have 1.5
    assert blind.summary["utility"]["beats_guessing"] is False
    assert blind.summary["utility"]["loss_guessing"] < 2 < blind.summary["utility"]["loss_test"]
    assert any("by frequencies" in why for why in blind.verdict["why"])
    factor = np.where(evidence.items.label == WHOLE, 0.05, 1.0)
    seeing = replace(evidence, loss_a=evidence.loss_a * factor, loss_b=evidence.loss_b * factor)
    assert analyse(seeing, OPTIONS, CONTEXT).summary["utility"]["beats_guessing"] is True


def test_an_audit_from_images_to_pages(tmp_path: Path):
    rng = np.random.default_rng(0)
    marks = rng.random((140, 3)) < (0.5, 0.4, 0.3)
    images = rng.integers(0, 60, (140, 8, 8, 1)).astype(np.uint8)
    images[marks[:, 0], 1:3, 1:3] += 150
    images[marks[:, 1], 5:7, 5:7] += 150
    labels = np.array(["|".join(n for n, m in zip("xyz", row, strict=True) if m) or "none" for row in marks])
    groups = np.array([f"p{i // 2:02d}" for i in range(140)])
    np.savez(tmp_path / "set.npz", images=images, labels=labels, groups=groups)
    settings = {"models": 6, "epochs": 3, "head": "multi", "processes": 1, "model": "small_cnn"}
    result = audit_classifier(tmp_path / "set.npz", out=tmp_path / "run", **settings)
    assert isinstance(result, Result)
    rows = result.per_class.set_index("label")
    assert set(rows.index) == {"none", "x", "y", "z", WHOLE}
    assert rows.loc[WHOLE, "n_scored"] == result.summary["n_canary"]
    assert result.summary["without_partner"] == 0
    assert "naming each finding by its frequency" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert cell_from_run(tmp_path / "run").classes["label"].tolist() == ["none", "x", "y", "z"]
    finished = open_finished(tmp_path / "run")
    assert WHOLE not in set(finished.evidence.items.label)
