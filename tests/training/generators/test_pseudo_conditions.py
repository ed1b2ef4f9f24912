"""Pseudo-conditions: five classifiers by patient, what each conditioning is made of, an interrupted training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json
from memorisk.statistics.roc import auc
from memorisk.training.generators import fold_classifiers as pseudo_folds
from memorisk.training.generators.fold_classifiers import FoldData, fold_data, fold_outputs, patient_folds
from memorisk.training.generators.options import CONDITIONINGS, PseudoOptions
from memorisk.training.generators.pseudo_conditions import fold_quality, pseudo_conditions

N, PATIENTS = 120, 40
QUICK = PseudoOptions(conditioning_epochs=3)


def quiet(stage: str, done: int, total: int) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    """120 real digits of three classes, three of each of 40 patients, who have one class each."""
    given = build_store(load_manifest("digits"), ImageOptions(store=tmp_path_factory.mktemp("store")))
    by_class = [np.flatnonzero(given.manifest.labels == name)[:40] for name in ("4", "5", "7")]
    rows = np.sort(np.concatenate(by_class))
    table = given.manifest.table.iloc[rows].reset_index(drop=True)
    order = table.groupby("label").cumcount().to_numpy()
    table["group"] = [f"{label}-{k // 3}" for label, k in zip(table["label"], order, strict=True)]
    return labelled(given, rows, table)


def labelled(store: ImageStore, rows: np.ndarray, table: pd.DataFrame) -> ImageStore:
    """Some images of a store with another table."""
    manifest: Manifest = replace(store.manifest, table=table)
    return replace(store, images=np.array(store.images[rows]), manifest=manifest, pixel_hashes=store.pixel_hashes[rows])


def renamed(store: ImageStore, names: dict[str, str]) -> ImageStore:
    """The same images with other labels."""
    table = store.manifest.table.assign(label=store.manifest.table["label"].map(lambda name: names.get(name, name)))
    return labelled(store, np.arange(len(table)), table)


@pytest.fixture(scope="module")
def trained(store: ImageStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[FoldData, np.ndarray, Path]:
    """Five classifiers of them."""
    folder = tmp_path_factory.mktemp("pseudo")
    data = fold_data(store, np.arange(N), 0)
    return data, fold_outputs(data, QUICK, folder, quiet), folder


def test_a_patient_lies_in_one_fold_and_classes_are_spread(store: ImageStore) -> None:
    data = fold_data(store, np.arange(N), 0)
    for patient in set(data.groups):
        assert len(set(data.fold[data.groups == patient])) == 1
    assert sorted(set(data.fold)) == [0, 1, 2, 3, 4]
    for name in set(data.labels):
        assert np.bincount(data.fold[data.labels == name], minlength=5).min() >= 3
    assert (data.fold != fold_data(store, np.arange(N), 1).fold).any()


def test_rare_classes_are_spread_together() -> None:
    labels, groups = np.array([f"{i // 2}" for i in range(12)]), np.array([f"{i // 2}" for i in range(12)])
    fold = patient_folds(labels, groups, 0)
    assert sorted(np.bincount(fold, minlength=5)) == [2, 2, 2, 2, 4]
    assert (fold[::2] == fold[1::2]).all()


def test_patients_who_share_an_image_are_one(store: ImageStore) -> None:
    hashes = store.pixel_hashes.copy()
    last = np.flatnonzero(store.manifest.groups != store.manifest.groups[0])[-1]
    hashes[last] = hashes[0]
    data = fold_data(replace(store, pixel_hashes=hashes), np.arange(N), 0)
    assert data.groups[0] == data.groups[last]
    assert data.fold[0] == data.fold[last]


def test_what_a_classifier_says_of_a_fold_does_not_depend_on_that_folds_labels(
    trained: tuple[FoldData, np.ndarray, Path], tmp_path: Path
) -> None:
    data, outputs, _ = trained
    values = data.targets.values.copy()
    values[data.fold == 2] = 1 - values[data.fold == 2]
    other = replace(data, targets=replace(data.targets, values=values))
    found = fold_outputs(other, QUICK, tmp_path, quiet)
    assert np.array_equal(found[2], outputs[2])
    assert all((found[k] != outputs[k]).any() for k in (0, 1, 3, 4))


def test_each_conditioning_is_made_of_what_it_says(
    store: ImageStore, trained: tuple[FoldData, np.ndarray, Path]
) -> None:
    data, outputs, folder = trained
    said = {which: pseudo_conditions(store, np.arange(N), QUICK, which=which, folder=folder) for which in CONDITIONINGS}
    onehot = np.stack([store.manifest.labels == name for name in ("4", "5", "7")], axis=1).astype(np.float32)
    prediction = np.stack([outputs[fold, row] for row, fold in enumerate(data.fold)])
    mean = sum(outputs[k].astype(np.float64) for k in range(5)) / 5
    assert np.array_equal(said["prediction"].values, prediction)
    np.testing.assert_allclose(said["ensemble"].values, mean, rtol=1e-6)
    for name in ("prediction", "ensemble"):
        joined = np.concatenate([said[name].values, onehot], axis=1)
        assert np.array_equal(said[f"{name}-label"].values, joined)
    assert ((prediction > 0) & (prediction < 1)).all()
    paper = replace(QUICK, conditioning_protocol="paper")
    first = pseudo_conditions(store, np.arange(N), paper, which="prediction", folder=folder)
    assert np.array_equal(first.values, outputs[0])
    assert first.notes[0] != said["prediction"].notes[0]
    for found in said.values():
        assert found.images.tolist() == store.manifest.images.tolist()
        assert found.labels.tolist() == store.manifest.labels.tolist()
    assert len(list(folder.glob("fold-*.npy"))) == 5  # trained once for all of them


def test_noise_belongs_to_the_image_and_is_kept(store: ImageStore, tmp_path: Path) -> None:
    def noisy(rows: np.ndarray, **settings) -> dict[str, np.ndarray]:
        """Conditions by id."""
        found = pseudo_conditions(store, rows, PseudoOptions(**settings), which="label-noise", folder=tmp_path / "no")
        return dict(zip(found.images.tolist(), found.values, strict=True))

    some = [int(np.flatnonzero(store.manifest.labels == name)[k]) for name in ("4", "5", "7") for k in (3, 9)]
    every, twice = noisy(np.arange(N)), noisy(np.array([*some[::-1], some[2]]))
    assert len(twice) == 6
    assert all(np.array_equal(values, every[name]) for name, values in twice.items())
    onehot = np.stack([store.manifest.labels == name for name in ("4", "5", "7")], axis=1)
    noise = np.stack(list(every.values())) - onehot
    assert noise.std() == pytest.approx(0.1, rel=0.12)  # of 360 numbers, three standard errors
    assert abs(noise.mean()) < 3 * 0.1 / np.sqrt(noise.size)
    wider = np.stack(list(noisy(np.arange(N), conditioning_noise=0.3).values())) - onehot
    np.testing.assert_allclose(wider, 3 * noise, atol=1e-6)
    assert not np.allclose(np.stack(list(noisy(np.arange(N), seed=1).values())) - onehot, noise)
    assert not (tmp_path / "no").exists()  # nothing is trained for it


def test_a_training_that_was_interrupted_gives_the_same(
    store: ImageStore, trained: tuple[FoldData, np.ndarray, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        """At the second epoch of the third classifier."""
        if (stage, done) == ("classifier 3 of 5", 2):
            raise KeyboardInterrupt

    often = replace(QUICK, checkpoint_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        pseudo_conditions(store, np.arange(N), often, which="ensemble", folder=tmp_path, progress=stop)
    assert len(list(tmp_path.glob("*.npy"))) == 2
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    honest, logs = pseudo_folds.fit, []
    monkeypatch.setattr(pseudo_folds, "fit", lambda *a, **s: logs.append(honest(*a, **s)))
    found = pseudo_conditions(store, np.arange(N), often, which="ensemble", folder=tmp_path)
    assert [log.resumed_from > 0 for log in logs] == [True, False, False]
    assert np.array_equal(found.values, trained[1].mean(axis=0))
    assert not list(tmp_path.glob("*.safetensors"))


def test_two_classes_have_one_number_and_several_findings_one_each(store: ImageStore, tmp_path: Path) -> None:
    two = fold_data(renamed(store, {"7": "5"}), np.arange(N), 0)
    assert (two.targets.head, two.onehot.shape) == ("binary", (N, 1))
    assert np.array_equal(two.onehot[:, 0] == 1, two.labels == "5")
    joined = fold_data(renamed(store, {"7": "4|5"}), np.arange(N), 0)
    assert joined.several
    assert np.array_equal(joined.onehot, np.stack([joined.labels != "5", joined.labels != "4"], axis=1))
    found = pseudo_conditions(
        renamed(store, {"7": "5"}), np.arange(N), QUICK, which="prediction-label", folder=tmp_path
    )
    assert found.values.shape == (N, 2)
    assert "One number: 5 against 4." in found.notes
    quality = read_json(tmp_path / "classifiers.json")
    assert list(quality["auc_unseen"]) == ["5"]


def test_quality_is_counted_on_those_a_classifier_did_not_see(store: ImageStore) -> None:
    data = fold_data(store, np.arange(N), 0)
    rng = np.random.default_rng(0)
    outputs = np.clip(data.onehot[None] * 0.5 + rng.random((5, N, 3)) * 0.7, 0, 1).astype(np.float32)
    found = fold_quality(data, outputs)
    truth = data.onehot.argmax(axis=1)
    unseen = [outputs[data.fold[i], i].argmax() == truth[i] for i in range(N)]
    seen = [outputs[k, i].argmax() == truth[i] for i in range(N) for k in range(5) if k != data.fold[i]]
    assert found.accuracy is not None
    assert found.accuracy.unseen.estimate == pytest.approx(np.mean(unseen))
    assert found.accuracy.seen.estimate == pytest.approx(np.mean(seen))
    assert found.accuracy.gain.estimate == pytest.approx(np.mean(unseen) - 1 / 3)
    assert found.accuracy.unseen.n_groups == len(set(data.groups))
    assert found.accuracy.unseen.low < found.accuracy.unseen.estimate < found.accuracy.unseen.high
    scores = np.array([outputs[data.fold[i], i, 1] for i in range(N)])
    assert found.auc["5"].estimate == pytest.approx(auc(scores[truth == 1], scores[truth != 1]))
    assert "not surely right" not in " ".join(found.sentences)
    guessed = fold_quality(data, rng.random((5, N, 3)).astype(np.float32))
    assert "not surely right more often than the commonest class" in " ".join(guessed.sentences)


def test_a_high_auc_beside_a_useless_likeliest_class_is_explained(store: ImageStore) -> None:
    data = fold_data(store, np.arange(N), 0)
    ordered = np.tile(0.1 * data.onehot, (5, 1, 1)).astype(np.float32)
    ordered[:, :, 0] += 0.5  # always the likeliest, and more so where it is true
    found = fold_quality(data, ordered)
    assert found.accuracy is not None
    assert found.accuracy.gain.low <= 0
    assert all(one.estimate == 1 for one in found.auc.values())
    told = found.sentences
    place = next(i for i, text in enumerate(told) if "not surely right" in text)
    assert told[place + 1].startswith("AUC asks something else: whether images of a class get a higher probability")
    assert told[place + 2].startswith("AUC on patients they did not see")


def test_figures_are_in_the_notes(store: ImageStore, trained: tuple[FoldData, np.ndarray, Path]) -> None:
    data, outputs, folder = trained
    found = pseudo_conditions(store, np.arange(N), QUICK, which="prediction", folder=folder)
    accuracy = fold_quality(data, outputs).accuracy
    assert accuracy is not None
    assert f"{100 * accuracy.unseen.estimate:.1f} %" in " ".join(found.notes)
    assert f"of {N} images of {len(set(data.groups))} patients" in " ".join(found.notes)
    assert read_json(folder / "classifiers.json")["accuracy"]["n_images"] == N


def test_what_cannot_have_conditions_is_refused(store: ImageStore, tmp_path: Path) -> None:
    one = renamed(store, {"5": "4", "7": "4"})
    none = renamed(store, {"4": "", "5": "", "7": ""})
    few = np.flatnonzero(np.isin(store.manifest.groups, ["4-0", "5-0", "7-0", "4-1"]))
    every = np.arange(N)
    for message, given, rows, settings in (
        ("all images have the same label", one, every, {}),
        ("has no labels", none, every, {}),
        ("there are 4 training patients; 5 folds need as many", store, few, {}),
        ("Did you mean 'ensemble'", store, every, {"which": "ensembl"}),
    ):
        with pytest.raises(InputError, match=message):
            pseudo_conditions(given, rows, QUICK, **{"which": "prediction", "folder": tmp_path / "no"} | settings)
    assert not (tmp_path / "no").exists()


def test_settings_are_taken_from_those_of_a_command() -> None:
    class Command:
        """Has some of them."""

        seed, threads, lr = 7, 2, 0.1

    assert PseudoOptions.of(Command()) == PseudoOptions(seed=7, threads=2)
    for name, value in (("conditioning_protocol", "papre"), ("conditioning_noise", 0.0), ("conditioning_epochs", 0)):
        with pytest.raises(InputError, match=name):
            PseudoOptions.of(PseudoOptions(**{name: value}))
