"""The audit of a U-Net of diffusers: twins of its very configuration, and the folder that is to be released."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from memorisk.audits.generator.options import options_from
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.release.export import release
from memorisk.models.generators.released import open_released
from memorisk.models.released_weights import released_sha256
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.generator.test_own_generator import MODULE
from tests.audits.generator.test_target import PATIENTS, UNSEEN, pictures, written
from tests.models.generators.test_unet import SMALL as CONFIG
from tests.models.generators.test_unet import edit, pipeline

SMALL = {"steps": 3, "batch_size": 8, "levels": 3, "draws": 1, "models": 6, "processes": 1, "group_from": r"(p\d+)"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images of 8 x 8 pixels with a given split, two per patient."""
    rng = np.random.default_rng(5)
    return str(
        written(tmp_path_factory.mktemp("set") / "images", pictures(rng, 2 * PATIENTS), pictures(rng, 2 * UNSEEN))
    )


def audited(images: str, out: Path, **settings: Any) -> Result:
    result = audit_generator(images, out=out, kind="unet", **{**SMALL, **settings})
    assert isinstance(result, Result)
    return result


def test_a_folder_is_attacked_with_twins_of_its_own_configuration(images: str, tmp_path: Path) -> None:
    folder = pipeline(tmp_path / "ddpm", prediction="v_prediction")
    result = audited(images, tmp_path / "run", target=folder, splits="given-random")
    target = result.summary["target"]
    assert target["tensors_sha256"] == released_sha256(open_released(folder, "unet").network)
    assert {"loss_threshold", "lira_offline", "pia", "secmi", "sima"} <= set(target["attacks"])
    assert "clid" not in target["attacks"]  # it has no value for no class
    assert result.summary["model"] == "U-Net of a folder"
    assert result.summary["training"]["network"].startswith("folder ")
    release(tmp_path / "run", tmp_path / "released.safetensors")
    edit(folder / "scheduler" / "scheduler_config.json", beta_end=0.03)
    with pytest.raises(InputError, match="network"):
        audited(images, tmp_path / "run", target=folder, splits="given-random")


def test_a_folder_of_classes_is_asked_with_each_images_own(tmp_path: Path) -> None:
    folder = pipeline(tmp_path / "ddpm", num_class_embeds=10)
    options = {"sample": 240, "group_from": None, "network": str(folder)}
    result = audited("digits", tmp_path / "run", **options)
    assert len(result.summary["seeds"]) == 3
    (weights, *others) = (tmp_path / "run" / "weights").glob("*.safetensors")
    assert len(others) == 5
    assert load_file(weights)["class_embedding.weight"].shape[0] == 10


@pytest.mark.thorough
def test_twins_of_ones_own_training_are_references_of_a_folder(
    images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = pipeline(tmp_path / "ddpm")
    name = f"own_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    own = {"train": f"{name}:train", "python_path": tmp_path, "steps": None, "batch_size": None}
    result = audited(images, tmp_path / "run", target=folder, splits="given-random", **own)
    assert set(result.summary["target"]["attacks"]) >= {"loss_threshold", "lira_offline", "pia"}
    assert result.summary["model"] == f"{name}:train"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "smal"}, "folder smal of a U-Net does not exist"),
        ({"network": "small", "size": 10}, "give --size, a multiple of 4"),
        ({"latent": "autoencoder:a"}, "^latent is no setting of kind unet: name it with kind dit$"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    images: str, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        audited(images, tmp_path / "run", **settings)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_other_images_and_the_folders_schedule_are_refused(images: str, tmp_path: Path) -> None:
    folder = pipeline(tmp_path / "ddpm", **{**CONFIG, "sample_size": 16})
    with pytest.raises(InputError, match="draws 1 x 16 x 16 values, and these images have 1 x 8 x 8"):
        audited(images, tmp_path / "run", network=str(folder))
    classes = pipeline(tmp_path / "classes", num_class_embeds=3)
    with pytest.raises(InputError, match="needs the class of each image, and the twins have no such classes"):
        audited(images, tmp_path / "run", target=classes, network="tiny")
    with pytest.raises(InputError, match="noise_schedule is that of the U-Net's folder"):
        options_from({"kind": "unet", "network": str(folder), "noise_schedule": "cosine"})
    assert options_from({"kind": "unet", "target": folder}).unet_folder == folder
    assert options_from({"kind": "unet", "target": folder, "network": "tiny"}).unet_folder is None
