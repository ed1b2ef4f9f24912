"""What the study's file may say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from memorisk.studies.unique_features.config import PLAIN, network_name, patience_of, read_unique, train_options
from tests.studies.unique_features.conftest import changed


def test_the_papers_own_settings_are_the_defaults() -> None:
    study = read_unique({"datasets": {"M": {"images": "digits", "probes": "digits", "networks": ["mlp1", "cnn2"]}}})
    options = study.options
    assert (options.random, options.runs, options.highest, options.lowest) == (100, 5, 15, 15)
    assert (options.epochs, options.patience, options.mark, options.place) == (500, 10, "A", "top-left")
    assert study.datasets["M"].regularisers == ("dropout", "augmentation", "dropout+augmentation", "batch_norm")
    mlp, cnn, dense = (train_options(study, name, PLAIN, 1, None) for name in ("mlp1", "cnn2", "densenet100"))
    assert (mlp.lr, mlp.batch_size, mlp.optimizer, mlp.schedule, mlp.epochs) == (3e-4, 128, "adam", "constant", 500)
    assert (cnn.lr, cnn.batch_size) == (3e-4, 512)
    assert (dense.lr, dense.optimizer, dense.schedule, dense.weight_decay) == (0.1, "nesterov", "step", 1e-4)
    assert [patience_of(study, one) for one in (mlp, cnn, dense)] == [10, 10, 300]  # its rate falls at 150 and 225


def test_paths_of_a_yaml_file_are_paths(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    names = [f"{i}.png" for i in range(4)]
    for i, name in enumerate(names):
        Image.fromarray(np.full((8, 8), 20 * i, dtype=np.uint8)).save(tmp_path / "images" / name)
    pd.DataFrame({"image": names, "label": list("abab")}).to_csv(tmp_path / "table.csv", index=False)
    folder, csv = tmp_path / "images", tmp_path / "table.csv"
    sets = {"table": f"images: {csv}, probes: digits, image_root: {folder}",
            "joined": f"images: {folder}, probes: digits, labels_csv: {csv}"}  # fmt: skip
    for asked in sets.values():
        text = f"datasets: {{M: {{{asked}, store: {tmp_path / 'store'}, networks: [mlp1]}}}}"
        found = read_unique(yaml.safe_load(text)).datasets["M"]
        assert found.reading.store == tmp_path / "store"
        assert load_manifest(found.images, found.reading).labels.tolist() == list("abab")


@pytest.mark.parametrize(
    ("regulariser", "name", "augment", "channels"),
    [
        ("none", "mlp1", None, 1),
        ("dropout", "mlp1_dropout", None, 1),
        ("augmentation", "mlp1", "contrast,shift1", 1),
        ("augmentation", "mlp1", "contrast,hflip", 3),
        ("dropout+augmentation", "mlp1_dropout", "contrast,shift1", 1),
        ("batch_norm", "mlp1_bn", None, 1),
        ("batch_norm+dropout", "mlp1_dropout_bn", None, 1),
    ],
)
def test_regularisers_are_networks_and_augmentations(
    regulariser: str, name: str, augment: str | None, channels: int
) -> None:
    study = read_unique(changed())
    assert network_name("mlp1", regulariser) == name
    assert train_options(study, "mlp1", regulariser, channels, None).augment == augment


def test_the_papers_protocol_has_no_references() -> None:
    assert read_unique(changed(protocol="paper")).options.references == 0


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "needs datasets"),
        ({"datasets": {}}, "needs datasets"),
        ({"datasets": {"M": {"images": "digits"}}}, "names no probes"),
        ({"datasets": {"M": "digits"}}, "needs settings below it"),
        (changed(protocol="published"), "protocol"),
        (changed({"canaries": 3}), "canaries"),
        (changed({"random": -1}), "random is -1"),
        (changed({"random": "3"}), "random"),
        (changed({"gallery": "no"}), "gallery"),
        (changed(dict.fromkeys(("random", "highest", "lowest", "latent"), 0)), "no canary"),
        (changed({"opacity": 0}), "opacity"),
        (changed({"mark": ""}), "no mark"),
        (changed({"device": "gpu"}), "device"),
        (changed({"validation": 1.0}), "validation is 1.0"),
        (changed(dataset={"networks": ["mlp9"]}), "mlp9"),
        (changed(dataset={"networks": ["mlp1_dropout"]}), "regularisers are named in regularisers"),
        (changed(dataset={"regularisers": ["weight_decay"]}), "weight_decay"),
        (changed(dataset={"regularised": ["densenet100"]}), "not for densenet100"),
        (changed(dataset={"networks": 3}), "give names"),
        (changed(dataset={"pictures": 3}), "pictures"),
        (changed(dataset={"augment": 3}), "augment"),
        (changed(dataset=dict.fromkeys(("networks", "random", "regularised", "characterised"))), "names a network"),
        (changed(training={"mlp1": {"learning_rate": 1}}), "learning_rate"),
        (changed(training={"mlp1": 3}), "settings below it"),
        (changed(training={"mlp1": {"lr": -1.0}}), "lr is -1.0"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(config: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_unique(config)
    assert "\n" not in str(caught.value)
