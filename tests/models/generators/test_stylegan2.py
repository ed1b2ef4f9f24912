"""A GAN as a generator: its folder is read strictly, and an image is its seed's, alone or in a batch."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from memorisk.models.generators.generators import Draw, load_generator
from memorisk.models.generators.stylegan2_generator import GanGenerator, draw_latents, gan_config, new_gan, save_gan
from memorisk.models.settings import GanSpec, GeneratorConfig, SamplingOptions
from memorisk.runs.errors import InputError

SPEC = GanSpec(size=16, channels=3, style=4, mapping_layers=2, features=64, features_max=8)


def generator(truncation: float = 1.0) -> GanGenerator:
    network, _ = new_gan(SPEC, 0)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if name.endswith("strength"):
                value.fill_(0.3)  # noise counts
    config = GeneratorConfig(kind="gan", name="small", size=(16, 16), channels=3)
    return GanGenerator(gan_config(config, SPEC, truncation=truncation), network.eval())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = generator()
    save_gan(found.network, tmp_path / "gan", found.config, seen=None)
    return tmp_path / "gan"


def test_an_image_is_its_seeds_alone_or_in_a_batch() -> None:
    gan, seeds = generator(), np.array([7, 0, 2**63 - 1, 7])
    images = gan.sample(Draw(seeds), device="cpu")
    assert (images.shape, images.dtype) == ((4, 16, 16, 3), np.uint8)
    for seed, image in zip(seeds, images, strict=True):
        assert np.array_equal(gan.sample(Draw(np.array([seed])), SamplingOptions(batch=1), device="cpu")[0], image)
    assert np.array_equal(images[0], images[3])
    assert not np.array_equal(images[0], images[1])
    assert gan.sample(Draw(np.zeros(0, dtype=np.int64)), device="cpu").shape == (0, 16, 16, 3)


def test_images_are_what_the_network_gives_in_greys() -> None:
    gan = generator()
    z, noises = draw_latents(SPEC, np.array([5]))
    with torch.no_grad():
        given = gan.network(z, noises)[0].permute(1, 2, 0).numpy()
    wanted = np.clip(np.rint((given + 1) * 127.5), 0, 255)
    assert np.array_equal(gan.sample(Draw(np.array([5])), device="cpu")[0], wanted)
    again, _ = draw_latents(SPEC, np.array([1, 5]))
    assert torch.equal(again[1], z[0])


def test_truncation_makes_images_more_alike() -> None:
    draw = Draw(np.arange(8))
    spread = [generator(t).sample(draw, device="cpu").astype(float).std(axis=0).mean() for t in (1.0, 0.3)]
    assert spread[1] < spread[0]


def test_a_folder_gives_the_same_images(folder: Path) -> None:
    draw, loaded = Draw(np.arange(3)), load_generator(folder)
    assert np.array_equal(loaded.sample(draw, device="cpu"), generator().sample(draw, device="cpu"))
    assert loaded.source == generator().source
    assert loaded.conditions is None
    assert (folder.stat().st_mode & 0o777, (folder / "weights.safetensors").stat().st_mode & 0o777) == (0o700, 0o600)


def test_settings_of_diffusion_models_are_refused() -> None:
    with pytest.raises(InputError, match=r"guidance is 2.0, and .* is not a diffusion model"):
        generator().sample(Draw(np.arange(2)), SamplingOptions(guidance=2.0), device="cpu")


def test_labels_are_refused() -> None:
    with pytest.raises(InputError, match="conditioned on nothing"):
        generator().sample(Draw(np.arange(2), labels=np.zeros(2, dtype=np.int64)), device="cpu")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("mapping.average"), "mapping.average is missing"),
        (lambda t: t.update(more=torch.zeros(2)), "more is unknown"),
        (
            lambda t: t.update({"synthesis.start": torch.zeros(1, 8, 4, 5)}),
            r"\[1, 8, 4, 5\], not float32 \[1, 8, 4, 4\]",
        ),
        (lambda t: t.update({"mapping.average": torch.zeros(4).half()}), "mapping.average is torch.float16"),
        (lambda t: t["synthesis.start"].view(-1)[3:].fill_(torch.nan), "synthesis.start is not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(folder: Path, change, said: str) -> None:
    tensors = load_file(folder / "weights.safetensors")
    change(tensors)
    save_file(tensors, folder / "weights.safetensors")
    with pytest.raises(InputError, match=said):
        load_generator(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["details"].pop("network"), "details lack its network"),
        (lambda d: d["details"].update(truncation="much"), "truncation is not a number"),
        (lambda d: d["details"]["network"].update(size=48), "takes squares of 8, 16"),
        (lambda d: d["details"]["network"].update(style="4"), "whole numbers"),
        (lambda d: d["details"]["network"].update(depth=4), "whole numbers"),
        (lambda d: d["details"]["network"].update(features=0), "features of a GAN is 0"),
        (lambda d: d.update(size=[32, 32]), "size, channels or condition"),
        (lambda d: d.update(conditioned_on="class"), "size, channels or condition"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(folder: Path, change, said: str) -> None:
    file = folder / "generator.json"
    described = json.loads(file.read_text())
    change(described)
    file.write_text(json.dumps(described))
    with pytest.raises(InputError, match=said):
        load_generator(folder)


def test_weights_that_are_gone_are_named(folder: Path) -> None:
    (folder / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"weights.safetensors cannot be read"):
        load_generator(folder)


def test_the_seed_of_the_weights_decides_them() -> None:
    states = [new_gan(SPEC, seed)[0].state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["synthesis.start"], states[2]["synthesis.start"])
    with pytest.raises(InputError, match="takes squares"):
        new_gan(replace(SPEC, size=20), 0)
