"""The audit of a text-to-image generator: twins with captions, attacks with them, and guidance towards them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from memorisk.audits.generator.options import options_from
from memorisk.audits.generator.plan import draw_parts, make_generator_plan
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.generator.target import open_target
from memorisk.audits.generator.trainings import make_jobs, read_training
from memorisk.audits.release.export import release
from memorisk.audits.release.statement import make_statement
from memorisk.cli.main import main
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.models.generators.denoiser import levels
from memorisk.models.generators.noise_attacks import NOISE_ATTACKS
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.released import open_released
from memorisk.models.generators.text_to_image.lora import read_lora
from memorisk.models.released_weights import released_sha256
from memorisk.report.result import Result
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError
from memorisk.training.generators.twins.networks import build_twin, score_rows
from tests.models.generators.test_unet import pipeline
from tests.models.small_text_to_image import CAPTIONS, lora_file, text_to_image_folder

pytest.importorskip("transformers")
SMALL = {"steps": 3, "batch_size": 8, "levels": 3, "draws": 1, "models": 6, "processes": 1, "kind": "unet"}
SIDE, MEMBERS, OTHERS = 16, 40, 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_to_image_folder(tmp_path_factory.mktemp("pipeline") / "sd")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images of 16 x 16 pixels in a table with captions, one per patient; the last one has none."""
    root, rng, rows = tmp_path_factory.mktemp("set"), np.random.default_rng(5), []
    for number in range(MEMBERS + OTHERS):
        name = f"p{number}.png"
        Image.fromarray(rng.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)).save(root / name)
        part = "train" if number < MEMBERS else "test"
        rows.append((name, f"p{number}", part, CAPTIONS[number % 4] if number < MEMBERS + OTHERS - 1 else None, ""))
    table = pd.DataFrame(rows, columns=["path", "group", "split", "caption", "nothing"])
    table.to_csv(root / "images.csv", index=False)
    return str(root / "images.csv")


def audited(images: str, out: Path, **settings: Any) -> Result:
    result = audit_generator(images, out=out, **{**SMALL, "caption_column": "caption", **settings})
    assert isinstance(result, Result)
    return result


def test_a_pipeline_is_attacked_with_captions_and_guidance(images: str, folder: Path, tmp_path: Path) -> None:
    result = audited(images, tmp_path / "run", target=folder, splits="given-random", guidance=7.5)
    target = result.summary["target"]
    assert {"loss_threshold", "lira_offline", "pia", "secmi", "sima", "clid", "guided_loss"} <= set(target["attacks"])
    assert target["guidance"] == 7.5
    assert target["tensors_sha256"] == released_sha256(open_released(folder, "unet").network)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Loss with guidance" in page
    assert "1 image has no caption" in page
    release(tmp_path / "run", tmp_path / "released.safetensors")
    assert file_sha256(tmp_path / "released.safetensors") == target["tensors_sha256"]
    (audit,) = make_statement(tmp_path / "run").audits
    figures = {figure.name: figure.value for figure in audit.figures}
    assert figures["target_guidance"] == 7.5
    assert "target_auc/guided_loss" in figures


def test_twins_and_target_are_scored_with_each_images_own_caption(images: str, folder: Path, tmp_path: Path) -> None:
    options = options_from({**SMALL, "target": folder, "caption_column": "caption", "splits": "given-random"})
    manifest = load_manifest(images, options)
    store = build_store(manifest, options)
    plan = make_generator_plan(manifest, draw_parts(manifest, [], options, 0), options).twins
    job = make_jobs(tmp_path, store, plan, options, read_training(options, dry_run=False))[0][0]
    twin, rows = build_twin(job), np.array([3, 9, MEMBERS + OTHERS - 1])
    released = open_released(folder, "unet")
    assert released.captions is not None
    x = torch.from_numpy(np.asarray(store.images)[rows].astype(np.float32)).permute(0, 3, 1, 2) / 255
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained(folder, subfolder="vae")
    with torch.no_grad():
        latents = vae.encode(x * 2 - 1).latent_dist.mode() * 0.5
    captions = ["mass in the lung", "opacity", ""]
    ids, times = store.manifest.images[rows].tolist(), levels(twin.denoiser, 3)

    def losses(denoiser: Any, texts: list[str], pairs: int = 1) -> np.ndarray:
        return noise_losses(denoiser, latents, ids, times, pairs, None, released.captions.tokens(texts))  # pyright: ignore[reportOptionalMemberAccess]

    scored = score_rows(job, twin, rows)
    np.testing.assert_allclose(scored, losses(twin.denoiser, captions), rtol=1e-4)
    assert not np.allclose(scored, losses(twin.denoiser, captions[::-1]), rtol=1e-4)
    target = open_target(store, plan, job, options)
    items = np.array([int(np.flatnonzero(plan.item_row == row)[0]) for row in rows])
    np.testing.assert_allclose(target.losses(items), losses(released.denoiser, captions), rtol=1e-4)
    clid = NOISE_ATTACKS["clid"].function(released.denoiser, latents, ids, released.captions.tokens(captions))
    np.testing.assert_allclose(target.published(items)["clid"], clid, atol=1e-5)
    assert abs(float(clid[2])) < 1e-5 < abs(float(clid[0]))  # an image without a caption has no discount


def test_a_lora_is_attacked_on_its_base_and_both_are_bound(images: str, folder: Path, tmp_path: Path) -> None:
    lora = lora_file(tmp_path / "lora", folder)
    result = audited(images, tmp_path / "run", target=folder, lora=lora, splits="given-random")
    target = result.summary["target"]
    assert (target["file"], target["base"]) == (lora.name, "sd")
    assert target["sha256"] == file_sha256(lora)
    hashes = [target["tensors_sha256"], target["base_sha256"]]
    assert hashes[1] == released_sha256(open_released(folder, "unet").network)
    assert result.summary["model"] == "LoRA of a U-Net of a folder"
    for file in (tmp_path / "run" / "weights").glob("*.safetensors"):
        tensors = load_file(file)
        assert set(tensors) == set(load_file(lora))  # a twin keeps its adapters alone
        assert any(float(value.abs().max()) > 0 for name, value in tensors.items() if "lora_B" in name)
        read_lora(file)
    assert result.summary["n_parameters"] == sum(value.numel() for value in load_file(lora).values())
    release(tmp_path / "run", tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert [file_sha256(file) for file in files] == hashes
    (audit,) = make_statement(tmp_path / "run", weights=files).audits
    assert list(audit.subject.sha256) == hashes
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Base of the LoRA" in page
    assert hashes[1] in page


def test_twins_of_a_lora_begin_with_the_base_and_differ_in_adapters_alone(
    images: str, folder: Path, tmp_path: Path
) -> None:
    lora = lora_file(tmp_path / "lora", folder)
    options = options_from(
        {**SMALL, "target": folder, "lora": lora, "caption_column": "caption", "splits": "given-random"}
    )
    manifest = load_manifest(images, options)
    store = build_store(manifest, options)
    plan = make_generator_plan(manifest, draw_parts(manifest, [], options, 0), options).twins
    training = read_training(options, dry_run=False)
    pair = make_jobs(tmp_path, store, plan, options, training)[0]
    base, loops = open_released(folder, "unet").network.state_dict(), [build_twin(job).loop for job in pair]
    first: Any = [loop.network for loop in loops]
    x, tokens = torch.randn(2, 4, 4, 4), torch.ones(2, 16, dtype=torch.int64)
    answers = [network(x, torch.tensor([5, 9]), tokens).sample for network in first]
    with torch.no_grad():
        expected = open_released(folder, "unet").denoiser.network(x, torch.tensor([5, 9]), tokens).sample
    assert torch.allclose(answers[0], expected, atol=1e-6)
    assert torch.equal(answers[0], answers[1])
    for loop in loops:
        for _ in loop.until(3):
            pass
    states = [network.state_dict() for network in first]
    for name in states[0]:
        original = name.replace("parametrizations.weight.original", "weight")
        assert ("parametrizations.weight.0." in name) != (original in base)
        if original in base:
            assert all(torch.equal(state[name], base[original]) for state in states)
        else:
            assert not torch.equal(states[0][name], states[1][name])


def test_only_the_u_net_of_a_twin_learns_and_some_rows_lose_their_caption(
    images: str, folder: Path, tmp_path: Path
) -> None:
    options = options_from({**SMALL, "network": str(folder), "caption_column": "caption", "ema": 0.0})
    manifest = load_manifest(images, options)
    store = build_store(manifest, options)
    plan = make_generator_plan(manifest, draw_parts(manifest, [], options, 0), options).twins
    job = make_jobs(tmp_path, store, plan, options, read_training(options, dry_run=False))[0][0]
    twin = build_twin(job)
    loop: Any = twin.loop
    before = {name: value.clone() for name, value in loop.network.state_dict().items()}
    for _ in loop.until(3):
        pass
    moved = {
        name.partition(".")[0] for name, value in loop.network.state_dict().items() if (value != before[name]).any()
    }
    assert moved == {"unet"}
    slots = torch.arange(8)
    kept = loop.conditions(slots, torch.zeros(8, dtype=torch.bool))
    dropped = loop.conditions(slots, torch.arange(8) % 2 == 0)
    assert torch.equal(dropped[1::2], kept[1::2])
    assert (dropped[::2] == torch.tensor([0, *[1] * 15])).all()
    assert loop.plan.drop == 0.1


def test_words_of_captions_are_in_the_report_and_no_redacted_one(images: str, folder: Path, tmp_path: Path) -> None:
    how = {"target": folder, "splits": "given-random", "models": 2, "caption_words": True}
    result = audited(images, tmp_path / "run", **how)
    table = result.tables["caption_words"]
    assert set(table["word"]) >= {"lung", "opacity", "effusion", "left"}
    assert (table["n_train_patients"] >= 5).all()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Which words of captions are remembered" in page
    assert "effusion" in page
    assert main(["report", str(tmp_path / "run"), "--redact"]) == 0
    page = (tmp_path / "run" / "report-redacted.html").read_text()
    assert "Which words of captions are remembered" in page
    assert "effusion" not in page


def _paths(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as the command line gives them."""
    return {name: Path(value) if name == "lora" else value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"caption_column": None}, "is conditioned on captions: name their column by --caption-column"),
        ({"caption_column": "captions"}, "Did you mean 'caption'"),
        ({"caption_column": "nothing"}, "caption_column nothing holds no caption"),
        ({"network": "tiny"}, "caption_column is given, and this U-Net takes no captions"),
        (
            {"network": "tiny", "caption_column": None},
            "latents of its own autoencoder, and the twins do not: train twins",
        ),
        ({"kind": "tiny"}, "caption_column is no setting of kind tiny: name it with kind unet"),
        ({"extract": 100}, "draws from captions, of which memorisk draws no images: leave --extract out"),
        (
            {"lora": "file", "kind": "dit", "caption_column": None},
            "lora is no setting of kind dit: name it with kind unet",
        ),
        (
            {"lora": "file", "target": None},
            "lora holds the adapters of a U-Net: name the folder of its base with target",
        ),
        ({"lora": "file", "network": "tiny"}, "twins of a LoRA begin with its base"),
        ({"lora": "file", "extract": 100}, "memorisk draws no images from a LoRA"),
        ({"lora": "file"}, "the file file of a LoRA does not exist"),
        ({"size": 8}, "draws 4 x 4 x 4 values, and these images have 4 x 2 x 2"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    images: str, folder: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        audited(images, tmp_path / "run", **{"target": folder, "splits": "given-random", **_paths(settings)})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_captions_of_a_network_without_them_are_refused(images: str, tmp_path: Path) -> None:
    plain = pipeline(tmp_path / "ddpm", sample_size=16)
    with pytest.raises(InputError, match="this U-Net takes no captions: name the folder of a StableDiffusionPipeline"):
        audited(images, tmp_path / "run", target=plain, splits="given-random")
