"""Specifications say what the paper's table 10 says, and names are found or refused."""

import subprocess
import sys

import pytest
import timm
from timm.models import _registry

from memorisk.models.classifiers.specs import CLIP_MEAN, SPECS, auto_model, model_spec, timm_names
from memorisk.models.classifiers.zoo import OWN_NETWORKS, list_models
from memorisk.runs.errors import InputError


@pytest.mark.parametrize(
    ("name", "architecture", "epochs", "lr", "weights"),
    [
        ("resnet50", "resnet50", 30, 1e-4, "a1_in1k"),
        ("vit_base_patch16_224", "vit_base_patch16_224", 30, 1e-4, "augreg_in21k"),
        ("mae", "vit_base_patch16_224", 30, 1e-4, None),
        ("medsam", "samvit_base_patch16", 50, 5e-5, None),
        ("biomedclip", "vit_base_patch16_224", 30, 1e-4, None),
    ],
)
def test_the_papers_five(name: str, architecture: str, epochs: int, lr: float, weights: str | None) -> None:
    spec = model_spec(name)
    assert (spec.architecture, spec.epochs, spec.lr, spec.default_weights) == (architecture, epochs, lr, weights)
    assert spec.image_size == 224
    assert spec.frozen_trunk == (name == "biomedclip")
    assert spec.needs_weights == (name in ("medsam", "biomedclip"))


@pytest.mark.parametrize("name", ["resnet50", "vit_base_patch16_224", "medsam"])
def test_normalisation_is_that_of_the_published_weights(name: str) -> None:
    spec = model_spec(name)
    record = timm.get_pretrained_cfg(f"{spec.architecture}.{spec.default_weights or 'sa1b'}")
    assert (spec.mean, spec.std) == (tuple(record.mean), tuple(record.std))


def test_biomedclip_is_normalised_as_clip() -> None:
    record = timm.get_pretrained_cfg("vit_base_patch16_clip_224.openai")
    assert model_spec("biomedclip").mean == CLIP_MEAN == tuple(record.mean)
    assert model_spec("biomedclip").std == tuple(record.std)


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_every_registered_architecture_exists(spec: object) -> None:
    assert spec.architecture in OWN_NETWORKS if spec.source == "memorisk" else timm.is_model(spec.architecture)
    if spec.default_weights:
        assert f"{spec.architecture}.{spec.default_weights}" in timm.list_pretrained()
    assert spec.note


@pytest.mark.parametrize("name", ["convnext_tiny", "timm:convnext_tiny", "convnext_tiny.fb_in22k"])
def test_any_timm_name(name: str) -> None:
    spec = model_spec(name)
    assert spec.architecture == "convnext_tiny"
    assert spec.default_weights == ("fb_in22k" if "fb" in name else "in12k_ft_in1k")
    assert (spec.epochs, spec.lr, spec.normalise) == (30, 1e-4, "model")


def test_timms_own_name_wins_over_a_specification_of_memorisk() -> None:
    assert model_spec("timm:resnet50") is SPECS["resnet50"]
    with pytest.raises(InputError, match="unknown model 'timm:small_cnn'"):
        model_spec("timm:small_cnn")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("resnet5O", "Did you mean 'resnet50'"),
        ("smal_cnn", "Did you mean 'small_cnn'"),
        ("resnet50.tv_in2k", "Did you mean 'tv_in1k'"),
        ("hf-hub:someone/something", "unknown model"),
        ("local-dir:/somewhere", "unknown model"),
        ("", "unknown model"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        model_spec(name)
    assert "\n" not in str(caught.value)


def test_auto_is_by_size() -> None:
    assert [auto_model(size) for size in (8, 63, 64, 224)] == ["small_cnn", "small_cnn", "resnet50", "resnet50"]


def test_list_begins_with_the_specified() -> None:
    names = list_models()
    assert names[: len(SPECS)] == list(SPECS)
    assert "convnext_tiny" in names
    assert len(set(names)) == len(names)


def test_specifications_load_neither_torch_nor_timm() -> None:
    script = "import sys; from memorisk.models.classifiers.specs import model_spec; model_spec('resnet50'); "
    script += "print([m for m in ('torch', 'timm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_that_are_read_from_the_text_of_timm_are_those_that_it_builds() -> None:
    known = timm_names()
    assert known.networks == {*timm.list_models()}
    assert len(known.former) > 100
    assert all(timm.is_model(name) for name in known.former)
    assert known.networks | known.former == {*_registry._model_entrypoints}
