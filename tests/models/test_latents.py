"""Encoders of latents: what each gives, that a folder is whole, and what is refused."""

import json
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models import autoencoder as autoencoders
from memorisk.models import hub
from memorisk.models.hub import PYTORCH, WEIGHTS
from memorisk.models.latents import LatentEncoder, external_encoder, load_encoder, open_latents, save_encoder
from memorisk.models.provenance import ORIGIN, TrainingRecord
from memorisk.runs.errors import InputError, MissingExtraError
from tests.models.small_autoencoder import autoencoder, autoencoder_folder, posterior_mean

GREY, COLOUR = (24, 20, 1), (24, 20, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return autoencoder_folder(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **named: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refused)


def images(channels: int, side: int, n: int = 5) -> torch.Tensor:
    return torch.rand((n, channels, side, side), generator=torch.Generator().manual_seed(1))


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_pixels_are_their_own_latent() -> None:
    encoder = open_latents("pixels", COLOUR)
    assert (encoder.name, encoder.latent_shape, encoder.channels) == ("pixels 24 x 20", (3, 24, 20), 3)
    x = torch.tensor([0.0, 0.5, 1.0]).reshape(1, 3, 1, 1)
    assert encoder.load()(x).flatten().tolist() == [-1.0, 0.0, 1.0]
    smaller = open_latents("pixels:8", GREY)
    assert smaller.latent_shape == open_latents("pixels", GREY, size=8).latent_shape == (1, 8, 8)
    assert smaller.identity != encoder.identity
    assert "squashed to the network's square" in " ".join(smaller.notes)


@pytest.mark.usefixtures("no_network")
def test_a_latent_is_the_mean_of_the_posterior_of_diffusers(folder: Path) -> None:
    encoder = open_latents(f"autoencoder:{folder}", GREY)
    assert (encoder.name, encoder.latent_shape) == ("autoencoder small (4 x 4 x 4)", (4, 4, 4))
    assert (encoder.size, encoder.channels) == ((16, 16), 1)
    x = images(1, 16)
    module = encoder.load()
    network = autoencoder()
    expected = posterior_mean(network, x) * network.config.scaling_factor
    with torch.inference_mode():
        torch.testing.assert_close(module(x), expected, rtol=0, atol=0)
    assert module is encoder.load()
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert open_latents(f"autoencoder:{folder}", GREY, size=32).latent_shape == (4, 8, 8)


@pytest.mark.parametrize(
    "given",
    [
        {"scaling_factor": 0.5, "shift_factor": 0.25},
        {"scaling_factor": 0.5, "latents_mean": [0.1, 0.2, 0.3, 0.4], "latents_std": [1.0, 2.0, 4.0, 8.0]},
        {"scaling_factor": 1.0, "use_quant_conv": False, "use_post_quant_conv": False},
    ],
)
def test_latents_are_shifted_and_scaled_as_the_configuration_says(given: dict, tmp_path: Path) -> None:
    made = autoencoder_folder(tmp_path / "made", 3, **given)
    x = images(3, 16)
    mean = posterior_mean(autoencoder(3, **given), x)
    shift = torch.tensor(given.get("latents_mean", [given.get("shift_factor", 0.0)]))[:, None, None]
    std = torch.tensor(given.get("latents_std", [1.0]))[:, None, None]
    found = open_latents(f"autoencoder:{made}", COLOUR).load()(x)
    torch.testing.assert_close(found, (mean - shift) * given["scaling_factor"] / std)


def test_the_folder_of_a_pipeline_and_of_a_run_are_looked_into(folder: Path, tmp_path: Path) -> None:
    alone = open_latents(f"autoencoder:{folder}", GREY).identity
    for part in ("vae", "autoencoder"):
        root = tmp_path / part
        root.mkdir()
        copied(folder, root / part)
        inside = open_latents(f"autoencoder:{root}", GREY)
        assert inside.identity == alone
        assert inside.name == f"autoencoder {part} (4 x 4 x 4)"


def test_grey_images_are_repeated_for_an_autoencoder_of_colours_and_not_the_other_way(
    folder: Path, tmp_path: Path
) -> None:
    colours = autoencoder_folder(tmp_path / "colours", 3)
    assert open_latents(f"autoencoder:{colours}", GREY).channels == 3
    with pytest.raises(InputError, match="takes grey images and these have 3 channels"):
        open_latents(f"autoencoder:{folder}", COLOUR)


def png_store(root: Path, numbers: range) -> ImageStore:
    """Images by number, two a patient."""
    target = root / f"images{numbers.start}"
    target.mkdir()
    for number in numbers:
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(target / f"p{number // 2}_{number}.png")
    options = ImageOptions(store=root / "cache", group_from=r"(p\d+)_")
    return build_store(load_manifest(target, options), options, processes=1)


def encoders(folder: Path) -> list[LatentEncoder]:
    given = external_encoder("latents given directly (4 x 8 x 8)", (4, 8, 8))
    return [open_latents(text, GREY) for text in ("pixels", "pixels:8", f"autoencoder:{folder}")] + [given]


def test_a_saved_encoder_is_whole_without_the_original(folder: Path, tmp_path: Path) -> None:
    original = copied(folder, tmp_path / "original")
    for number, encoder in enumerate(encoders(original)):
        save_encoder(encoder, tmp_path / str(number))
    for file in original.iterdir():
        file.unlink()
    for number, encoder in enumerate(encoders(folder)):
        loaded = load_encoder(tmp_path / str(number))
        assert (loaded.identity, loaded.name) == (encoder.identity, encoder.name.replace("small", "original"))
        assert (loaded.kind, loaded.size, loaded.latent_shape) == (encoder.kind, encoder.size, encoder.latent_shape)
        if encoder.kind == "latents":
            with pytest.raises(InputError, match="their encoder is not known"):
                loaded.load()
            continue
        x = images(1, encoder.size[1])
        torch.testing.assert_close(loaded.load()(x), encoder.load()(x), rtol=0, atol=0)
    saved = tmp_path / "2"
    assert {file.name for file in saved.iterdir()} == {"encoder.json", "encoder.safetensors"}
    assert all(file.stat().st_mode & 0o077 == 0 for file in (saved, *saved.iterdir()))
    assert not any(name.startswith("decoder") for name in load_file(saved / "encoder.safetensors"))
    assert str(tmp_path) not in (saved / "encoder.json").read_text()


def test_a_saved_encoder_that_is_not_what_it_was_is_refused(folder: Path, tmp_path: Path) -> None:
    encoder = open_latents(f"autoencoder:{folder}", GREY)
    saved = tmp_path / "saved"
    save_encoder(encoder, saved)
    weights, description = saved / "encoder.safetensors", saved / "encoder.json"
    kept, said = weights.read_bytes(), json.loads(description.read_text())
    with pytest.raises(InputError, match="holds no encoder of latents"):
        load_encoder(tmp_path)
    weights.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(InputError, match="not the one that was saved"):
        load_encoder(saved)
    weights.unlink()
    with pytest.raises(InputError, match="missing or not the one"):
        load_encoder(saved)
    weights.write_bytes(kept)
    for changed in ({"kind": "other"}, {"format": 2}, {"size": [16]}, {"latent_shape": [4, 5, 4]}, {"config": {}}):
        description.write_text(json.dumps(said | changed))
        with pytest.raises(InputError, match=r"is not a description|is damaged"):
            load_encoder(saved)
    other = said | {"config": said["config"] | {"layers_per_block": 2}}
    description.write_text(json.dumps(other))
    with pytest.raises(InputError, match=r"does not fit its configuration: .* is missing"):
        load_encoder(saved).load()


def test_whom_an_autoencoder_was_trained_on_is_kept_and_found_again(folder: Path, tmp_path: Path) -> None:
    trained, other = png_store(tmp_path, range(6)), png_store(tmp_path, range(4, 10))
    target = copied(folder, tmp_path / "trained")
    TrainingRecord.of(trained, {"training": np.arange(4), "validation": np.array([4])}).save(target)
    save_encoder(open_latents(f"autoencoder:{target}", GREY), tmp_path / "saved")
    for seen in (open_latents(f"autoencoder:{target}", GREY).seen, load_encoder(tmp_path / "saved").seen):
        assert seen is not None
        assert seen.parts(trained).part.tolist() == ["training"] * 4 + ["validation", "validation"]  # of one patient
        assert seen.parts(other).part.tolist() == ["validation", "validation", "", "", "", ""]
        assert seen.parts(trained).pixels_compared
    assert open_latents(f"autoencoder:{folder}", GREY).seen is None
    (target / ORIGIN).write_text("{}")
    with pytest.raises(InputError, match="was trained on cannot be read"):
        open_latents(f"autoencoder:{target}", GREY)


def test_damaged_and_foreign_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    first = "encoder.conv_in.weight"
    wrong = {
        "missing": ({n: t for n, t in tensors.items() if n != first}, f"{first} is missing"),
        "unknown": (tensors | {"head.weight": torch.zeros(2)}, "head.weight is unknown"),
        "shape": (tensors | {first: torch.zeros(4, 3, 3, 3)}, f"{first} is .*and not"),
        "nan": (tensors | {first: torch.full_like(tensors[first], float("nan"))}, f"{first} is not finite"),
    }
    for name, (content, message) in wrong.items():
        target = copied(folder, tmp_path / name)
        save_file(content, target / WEIGHTS)
        encoder = open_latents(f"autoencoder:{target}", GREY)
        with pytest.raises(InputError, match=message) as caught:
            encoder.load()
        assert "\n" not in str(caught.value)
    bare = copied(folder, tmp_path / "bare")
    (bare / WEIGHTS).rename(bare / "weights.safetensors")
    with pytest.raises(InputError, match="other kinds of weights are not read"):
        open_latents(f"autoencoder:{bare}", GREY)
    cut = copied(folder, tmp_path / "cut")
    (cut / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be loaded from safetensors"):
        open_latents(f"autoencoder:{cut}", GREY).load()


def test_the_pytorch_file_of_an_older_folder_is_read_as_tensors_alone(folder: Path, tmp_path: Path) -> None:
    old, tensors = copied(folder, tmp_path / "old"), load_file(folder / WEIGHTS)
    (old / WEIGHTS).unlink()
    before = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}  # names until diffusers 0.17
    renamed = {}
    for name, value in tensors.items():
        for now, then in before.items():
            name = name.replace(f".attentions.0.{now}.", f".attentions.0.{then}.")
        renamed[name] = value
    assert len(set(renamed) - set(tensors)) == 16  # of encoder and decoder, with their biases
    torch.save(renamed, old / PYTORCH)
    x, expected = images(1, 16), open_latents(f"autoencoder:{folder}", GREY)
    encoder = open_latents(f"autoencoder:{old}", GREY)
    assert encoder.identity["weights"] != expected.identity["weights"]
    with torch.inference_mode():
        torch.testing.assert_close(encoder.load()(x), expected.load()(x), rtol=0, atol=0)
    shards = [dict(list(renamed.items())[part::2]) for part in (0, 1)]
    for number, shard in enumerate(shards):
        torch.save(shard, old / f"diffusion_pytorch_model-0000{number}-of-00002.bin")
    (old / PYTORCH).unlink()
    where = {name: f"diffusion_pytorch_model-0000{number}-of-00002.bin" for number in (0, 1) for name in shards[number]}
    (old / f"{PYTORCH}.index.json").write_text(json.dumps({"weight_map": where}))
    with torch.inference_mode():
        torch.testing.assert_close(open_latents(f"autoencoder:{old}", GREY).load()(x), expected.load()(x))
    (old / f"{PYTORCH}.index.json").unlink()
    marker = tmp_path / "ran"
    for content, message in ((Runs(marker), "would run code"), ({"step": 3}, "not tensors")):
        torch.save(content, old / PYTORCH)
        with pytest.raises(InputError, match=f"cannot be loaded: .*{message}"):
            open_latents(f"autoencoder:{old}", GREY).load()
    assert not marker.exists()


class Runs:
    """What would leave a file behind if it were unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_class_name": "AutoencoderTiny"}, "it is of class AutoencoderTiny"),
        ({"in_channels": 2}, "images of 2 channels"),
        ({"block_out_channels": None}, "cannot be used"),
        ({"latent_channels": "4"}, "not whole numbers"),
        ({"sample_size": "large"}, "no sample_size"),
        ({"sample_size": 18}, "18 x 18 pixels are not a multiple"),
    ],
)
def test_configurations_that_cannot_be_are_refused(folder: Path, tmp_path: Path, change: dict, message: str) -> None:
    target = copied(folder, tmp_path / "other")
    found = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(found | change))
    with pytest.raises(InputError, match=message):
        open_latents(f"autoencoder:{target}", GREY)
    (target / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be used"):
        open_latents(f"autoencoder:{target}", GREY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pixel", "Did you mean 'pixels'"),
        ("pixels:0", "not of the form pixels or pixels:SIDE"),
        ("pixels:8", "names 8 pixels a side and size 16"),
        ("autoencoder:", "unknown encoder of latents"),
        ("autoencoder:no/such", "folder no/such of an autoencoder does not exist"),
        ("latents:given.npz", "are given in place of images"),
    ],
)
def test_names_that_are_none_are_refused(text: str, message: str) -> None:
    if text.startswith("autoencoder:"):
        pytest.importorskip("diffusers")
    with pytest.raises(InputError, match=message):
        open_latents(text, GREY, size=16)


def test_the_hub_is_asked_by_name_only(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    from contextlib import contextmanager

    import huggingface_hub

    asked, held = [], folder

    @contextmanager
    def reached():
        yield True

    def download(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append((name, local_files_only, {pattern.rpartition(".")[2] for pattern in allow_patterns}))
        return str(held)

    monkeypatch.setattr(hub, "quiet_hub", reached)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    encoder = open_latents("autoencoder:some/vae@default", GREY)
    assert asked == [("some/vae", False, {"json", "safetensors"})]
    assert encoder.name == "autoencoder vae (4 x 4 x 4)"
    with pytest.raises(InputError, match="leave @default out"):
        open_latents(f"autoencoder:{folder}@default", GREY)
    assert len(asked) == 1
    held = copied(folder, tmp_path / "held")
    (held / WEIGHTS).rename(held / "unknown.safetensors")
    with pytest.raises(InputError, match="holds neither"):  # and the hub has no other either
        open_latents("autoencoder:some/vae@default", GREY)
    assert [kinds for *_, kinds in asked[1:]] == [{"json", "safetensors"}, {"json", "bin"}]


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from importlib.metadata import PackageNotFoundError

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(autoencoders, "version", absent)
    with pytest.raises(MissingExtraError, match=r"diffusers.*\[generative\]"):
        open_latents(f"autoencoder:{folder}", GREY)
    assert open_latents("pixels", GREY).kind == "pixels"
