"""What an audit will do: parts by group, designs, items, cost, and what makes a run the same run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.evidence import WHOLE
from memorisk.audits.classifier.options import ClassifierOptions, options_from
from memorisk.audits.classifier.planning.plan import (
    VALIDATION,
    Plan,
    draw_parts,
    make_placebo,
    make_plan,
)
from memorisk.audits.classifier.run import audit_classifier
from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_bytes


def manifest(sizes: dict[str, int], *, group_size: int = 2, split=None) -> Manifest:
    """Patients of one class each, with so many images."""
    rows = [
        (f"{label}-{g:03d}-{i}", label, f"{label}-{g:03d}")
        for label, n in sizes.items()
        for g in range(n)
        for i in range(group_size)
    ]
    table = pd.DataFrame(rows, columns=["image", "label", "group"]).assign(dataset="made")
    table["path"] = table["image"] + ".png"
    if split is not None:
        table["split"] = [split(group) for group in table["group"]]
    return Manifest(table=table, root=None, name="made")


def plan_of(images: Manifest, **settings) -> Plan:
    options = options_from(settings)
    return make_plan(images, draw_parts(images, [], options, options.split_seed), options)


SIZES = {"a": 60, "b": 30, "tiny": 3}


def signature(plan: Plan) -> np.ndarray:
    """Part and sides of each image, [1 + S, N]: what a run shows of it by pseudonym."""
    return np.stack([plan.parts.part.astype(str), *(design.sign.astype(str) for design in plan.designs)])


@pytest.mark.parametrize(
    "settings", [{"design": "balanced"}, {"design": "matched"}, {"design": "matched", "splits": "given"}]
)
def test_designs_are_not_drawn_again_from_seed_and_names_alone(tmp_path, settings):
    key, settings = tmp_path / "key", {"models": 16, **settings}
    write_bytes(key, b"a secret of sixteen bytes")
    images = manifest({"a": 150, "b": 150}, split=lambda g: "test" if g.endswith("5") else "train")
    hidden = plan_of(images, **settings, pseudonymise=True, pseudonym_key=key)
    assert [design.seed for design in hidden.designs] == [design.seed for design in plan_of(images, **settings).designs]
    assert (signature(hidden) == signature(plan_of(images, **settings, pseudonymise=True, pseudonym_key=key))).all()
    drawn, guessed = signature(hidden), signature(plan_of(images, **settings))
    assert (drawn == guessed).all(axis=0)[hidden.parts.part == "canary"].mean() < 0.05
    write_bytes(key, b"another secret of sixteen")
    other = signature(plan_of(images, **settings, pseudonymise=True, pseudonym_key=key))
    assert not (other == drawn).all()


def test_placebos_are_not_drawn_again_from_seed_and_names_alone(tmp_path):
    key = tmp_path / "key"
    write_bytes(key, b"a secret of sixteen bytes")
    images = manifest({"a": 150, "b": 150})
    plans = []
    for hiding in ({}, {"pseudonymise": True, "pseudonym_key": key}):
        options = options_from({"models": 16, **hiding})
        plans.append(make_placebo(images, draw_parts(images, [], options, 0), options, seed=1)[0])
    assert [d.seed for d in plans[0].designs] == [d.seed for d in plans[1].designs]
    signs = [np.stack([design.sign for design in plan.designs]) for plan in plans]
    assert (signs[0] == signs[1]).all(axis=0)[signs[0].any(axis=0)].mean() < 0.05


@pytest.mark.parametrize("design", ["balanced", "matched", "paper"])
@pytest.mark.parametrize("own", [None, "module:train"])
def test_no_patient_is_in_two_parts_and_no_held_out_image_in_a_model(design, own):
    images = manifest(SIZES)
    plan = plan_of(images, design=design, models=6, train=own)
    part = plan.parts.part.astype(str)
    assert all(len(set(part[images.groups == g])) == 1 for g in set(images.groups))
    held_out = np.isin(part, ["test", VALIDATION])
    for d in plan.designs:
        for rows in (d.rows_a, d.rows_b):
            assert len(set(rows)) == len(rows)
            assert not held_out[rows].any()
    assert (part == VALIDATION).any() == (own is not None)
    assert not np.isin(plan.item_row, np.flatnonzero(part == VALIDATION)).any()
    assert plan.parts.too_small == ["tiny"]
    assert set(part[images.labels == "tiny"]) == {"train"}
    assert set(part) == {"canary", "test", "train"} | ({VALIDATION} if own else set())
    if own:  # a tenth of what the models would else be trained on, by class within a patient or two
        source = part == ("canary" if design == "balanced" else "train")
        for label in "ab":
            of_class = images.labels == label
            validation = (of_class & (part == VALIDATION)).sum()
            assert abs(validation - 0.1 * (validation + (of_class & source).sum())) <= 4


def test_the_validation_part_is_the_same_for_every_seed_and_apart_from_the_placebos(tmp_path):
    images = manifest(SIZES)
    options = ClassifierOptions(models=4, train="module:train", placebo=1)
    plan = make_plan(images, draw_parts(images, [], options, 0), options)
    placebo, assigned = make_placebo(images, plan.parts, options, seed=1)
    part = placebo.parts.part.astype(str)
    assert (part == VALIDATION).any()
    trained = np.concatenate([rows for d in placebo.designs for rows in (d.rows_a, d.rows_b)])
    assert set(part[trained]) == {"train"}
    assert set(part[placebo.item_row]) == {"canary", "test"}
    assert assigned.any()
    assert not assigned[:, part[placebo.item_row] == "test"].any()


def test_findings_are_items_and_partners_hold_the_same_ones():
    images = manifest({"a": 30, "a|b": 30, "b": 30}, group_size=1)
    plan = plan_of(images, head="multi", models=4)
    assert plan.parts.classes == ["a", "b"]
    assert len(plan.items) == 30 + 60 + 30 + 90  # one a finding, and one an image
    assert [[*plan.parts.classes, WHOLE][c] for c in plan.item_class] == plan.items.label.tolist()
    for row, label in zip(plan.item_row, plan.items.label, strict=True):
        assert label in [*images.labels[row].split("|"), WHOLE]
    for d in plan.designs:
        assert d.sign[plan.parts.rows("canary")].all()
        for finding in "ab":
            held = [sum(finding in images.labels[row].split("|") for row in rows) for rows in (d.rows_a, d.rows_b)]
            assert abs(held[0] - held[1]) <= 2  # one image more on a side, and one finding less on the other
    with pytest.raises(InputError, match="--head multi"):
        plan_of(images, models=2)
    with pytest.raises(InputError, match="rename it"):
        plan_of(manifest({"a": 30, WHOLE: 30}), head="multi", models=2)
    first = plan_of(images, head="first", models=2)
    assert first.parts.classes == ["a", "b"]
    assert len(first.items) == 90


def given(group: str) -> str:
    return "test" if int(group[-3:]) % 4 == 0 else "val" if int(group[-3:]) % 4 == 1 else "train"


def test_a_given_split_is_taken_as_it_is():
    images = manifest({"a": 40, "b": 40}, split=given)
    plan = plan_of(images, splits="given", models=2)
    expected = {"train": "canary", "test": "test", "val": VALIDATION}
    assert plan.parts.part.tolist() == [expected[s] for s in images.splits]
    assert not plan.parts.random
    assert plan_of(images, splits="given-random", models=2).parts.random
    matched = plan_of(images, splits="given", design="matched", models=2).parts.part
    assert set(matched[[s == "train" for s in images.splits]]) == {"train", "canary"}
    assert (matched == "canary").sum() / (np.array(images.splits) == "train").sum() == pytest.approx(15 / 85, abs=0.03)
    leaking = manifest({"a": 40, "b": 40}, split=given)
    leaking.table.loc[0, "split"] = "train"
    with pytest.raises(InputError, match="a-000"):
        plan_of(leaking, splits="given", models=2)
    with pytest.raises(InputError, match="gives no split"):
        plan_of(manifest({"a": 40, "b": 40}), splits="given", models=2)
    with pytest.raises(InputError, match="needs train and test"):
        plan_of(manifest({"a": 40, "b": 40}, split=lambda g: "train"), splits="given", models=2)


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InputError, match="one class"):
        plan_of(manifest({"a": 40}), models=2)
    with pytest.raises(InputError, match="no class is large enough"):
        plan_of(manifest({"a": 3, "b": 3}), models=2)
    with pytest.raises(InputError, match="a binary head needs two classes"):
        plan_of(manifest({"a": 20, "b": 20, "c": 20}), models=2, head="binary")


def nobody_alike() -> Manifest:
    """Patients of 1, 2, 3, ... images of one class."""
    images = manifest({"a": 55, "b": 55}, group_size=1)
    sizes = np.repeat(np.arange(1, 11), np.arange(1, 11))
    images.table["group"] = [f"{label}-{n}" for label, n in zip(images.labels, np.r_[sizes, sizes], strict=True)]
    return images


def test_patients_of_whom_no_two_are_alike_are_all_scored():
    plan = plan_of(nobody_alike(), models=4)
    assert all(d.sign[plan.parts.rows("canary")].all() for d in plan.designs)


@pytest.fixture(scope="module")
def digits_png(tmp_path_factory) -> Path:
    """Two classes of the built-in scans as PNG files, three of them filed under two patients each."""
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    root = tmp_path_factory.mktemp("png") / "images"
    rows = []
    for label in (3, 8):
        (root / str(label)).mkdir(parents=True)
        for n, i in enumerate(np.flatnonzero(data.target == label)[:40]):
            source = (
                i if n >= 3 or label == 8 else np.flatnonzero(data.target == label)[n + 10]
            )  # 0, 1, 2 copy 10, 11, 12
            file = root / str(label) / f"p{n:02d}.png"
            Image.fromarray((data.images[source] * 15).astype(np.uint8)).save(file)
            rows.append((f"{label}/p{n:02d}.png", str(label), f"patient-{label}-{n:02d}"))
    pd.DataFrame(rows, columns=["image", "label", "group"]).to_csv(root / "list.csv", index=False)
    return root / "list.csv"


def test_patients_that_share_an_identical_image_stay_together(digits_png, tmp_path):
    options = ImageOptions()
    store = build_store(load_manifest(digits_png, options), options, processes=1)
    pairs = linked_groups(store.pixel_hashes, store.manifest.groups)
    assert pairs == [(f"patient-3-{n:02d}", f"patient-3-{n + 10}") for n in range(3)]
    root = digits_png.parent
    assert (read_image(root / "3" / "p00.png") == read_image(root / "3" / "p10.png")).all()
    settings = {"models": 2, "epochs": 1, "processes": 1}
    found = audit_classifier(digits_png, out=tmp_path / "run", **settings)
    assert isinstance(found, Result)
    parts = pd.read_parquet(tmp_path / "run" / "manifest.parquet").set_index("group")
    for first, second in pairs:
        assert parts.loc[first, "part"] == parts.loc[second, "part"]
        assert parts.loc[first, "training_group"] == parts.loc[second, "training_group"] == first
    assert any("3 pairs of groups share an identical image" in note for note in found.summary["notes"])
    scored = found.per_image[found.per_image["image"].str.contains("3/p00|3/p10")]
    assert scored["group"].nunique() == 1


def test_patients_on_both_sides_of_a_given_split_that_share_an_image_are_refused_before_training(digits_png, tmp_path):
    """The null of such an audit would hold an image that was trained on."""
    table = pd.read_csv(digits_png)
    number = table["group"].str[-2:].astype(int)
    # patients 0 to 2 of class 3 share an image with patients 10 to 12
    table["split"] = np.where((number >= 10) & (number < 20), "test", "train")
    table.to_csv(digits_png.with_name("split.csv"), index=False)
    with pytest.raises(InputError, match=r"patient-3-00 in train and patient-3-10 in test.*one id and one split"):
        audit_classifier(
            digits_png.with_name("split.csv"), out=tmp_path / "run", splits="given-random", models=2, epochs=1
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": 3}, "even number"),
        ({"models": 0}, "even number"),
        ({"seeds": (1, 1)}, "given twice"),
        ({"seeds": (1, 2), "models": 6}, "make 4 models"),
        ({"seeds": (-1,)}, "between 0 and"),
        ({"design": "balancd"}, "Did you mean 'balanced'"),
        ({"protocol": "paper", "design": "matched"}, "leave one of the two out"),
        ({"level": 1.0}, "between 0 and 1"),
        ({"placebo": 1, "protocol": "paper"}, "balanced or matched"),
        ({"target_classes": "a,b"}, "name it with target"),
        ({"train_settings": {"lr": "1"}}, "--train"),
        ({"epoch": 3}, "Did you mean 'epochs'"),
        ({"threads": 0}, "at least 1"),
        ({"checkpoint_seconds": -1.0}, "0 or more"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        options_from(settings)


def test_the_papers_seeds_come_first():
    assert options_from({}).chosen_seeds == (123, 456, 789, 1024, 1025, 1026, 1027, 1028)
    assert options_from({"protocol": "paper"}).chosen_seeds == (123, 456, 789, 1024)
    assert options_from({"models": 4}).chosen_seeds == (123, 456)
    assert options_from({"seeds": [7, 5]}).chosen_seeds == (7, 5)
