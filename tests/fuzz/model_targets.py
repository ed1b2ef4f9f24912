"""Models and what stands for them: weights, ONNX files, saved outputs and features, generators and detectors."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from tests.fuzz.folders import of_file, of_folder
from tests.fuzz.target import Target

for _module in (
    "copy_detectors", "lcmem", "generators.dit.folder", "generators.stylegan2_generator", "latents",
    "blackbox.predictors", "blackbox.onnx", "blackbox.saved_outputs", "encoders.feature_sources", "weight_files",
):  # fmt: skip
    import_module(f"memorisk.models.{_module}")  # now, while imports are instrumented, and once for all turns
import_module("memorisk.scores.distances.measures")

_DIT = ("model_index.json", "transformer/config.json", "scheduler/scheduler_config.json", "vae/config.json")


def _onnx(folder: Path) -> list[Path]:
    from tests.models.small_models import small
    from tests.models.small_onnx import write_onnx

    return [write_onnx(folder / "a.onnx", small()) or folder / "a.onnx"]


def ask_predictor(file: Path) -> None:
    """A model that is asked for its answers to two images."""
    from memorisk.models.blackbox.predictors import load_predictor
    from tests.models.small_models import HALF, images

    load_predictor(str(file), preprocessing=HALF, device="cpu").probabilities(images(2))


def ask_checked(file: Path) -> None:
    """The checks of a file before a library opens it."""
    from memorisk.models.blackbox.onnx import check_onnx

    check_onnx(file)


def weights_files(folder: Path) -> list[Path]:
    """The same small tensors in every format."""
    import torch
    from safetensors.torch import save_file

    tensors = {"conv.weight": torch.zeros(2, 1, 3, 3), "head.bias": torch.ones(2, dtype=torch.float64)}
    save_file(tensors, folder / "a.safetensors", metadata={"k": "v"})
    torch.save({"state_dict": tensors}, folder / "a.pt")
    torch.save(tensors, folder / "b.pt", _use_new_zipfile_serialization=False)
    np.savez(folder / "a.npz", **{k: v.numpy() for k, v in tensors.items()})
    return [folder / name for name in ("a.safetensors", "a.pt", "b.pt", "a.npz")]


def ask_weights(file: Path) -> None:
    """Tensors by name."""
    from memorisk.models.weight_files import read_state_dict

    read_state_dict(file)


def outputs_files(folder: Path) -> list[Path]:
    """Saved outputs with references."""
    from memorisk.models.blackbox.saved_outputs import write_saved_outputs

    rng = np.random.default_rng(0)
    clean = rng.normal(size=(6, 3)) * 4
    more = {"references_clean": rng.normal(size=(2, 6, 3)), "references_marked": rng.normal(size=(2, 6, 3))}
    more["references_controls"] = rng.normal(size=(2, 4, 6, 3))
    given = {"clean": clean, "marked": clean + 1, "controls": rng.normal(size=(4, 6, 3))}
    write_saved_outputs(folder / "a.npz", **given)
    write_saved_outputs(folder / "b.npz", **given, **more, transparent=clean, compress=True)
    return [folder / "a.npz", folder / "b.npz"]


def ask_outputs(file: Path) -> None:
    """Every answer in it."""
    from memorisk.models.blackbox.saved_outputs import SavedOutputs

    found = SavedOutputs.read(file)
    found.describe(), found.clean(), found.marked(), found.transparent()
    for answers in (found.controls(), found.references_clean(), found.references_marked(), found.references_controls()):
        for probabilities in answers:
            assert np.isfinite(probabilities).all()


def features_files(folder: Path) -> list[Path]:
    """Features by row and by id."""
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(folder / "a.npy", values)
    np.savez(folder / "a.npz", features=values, image=np.array(list("abcd")))
    pd.DataFrame(values, columns=list("xyz")).assign(image=list("abcd")).to_parquet(folder / "a.parquet")
    return [folder / name for name in ("a.npy", "a.npz", "a.parquet")]


def ask_features(file: Path) -> None:
    """A row an image."""
    from memorisk.models.encoders.feature_sources import read_features

    assert len(read_features(file, np.array(list("abcd"), dtype=object))) == 4


def gan_folder(folder: Path) -> Path:
    """A small GAN."""
    from memorisk.models.generators.stylegan2_generator import save_gan
    from tests.models.generators.test_stylegan2 import generator

    found = generator()
    save_gan(found.network, folder / "gan", found.config, seen=None)
    return folder / "gan"


def dit_folder(folder: Path) -> Path:
    """A small diffusion transformer with an autoencoder."""
    from memorisk.models.generators.dit.folder import save_dit
    from tests.models.small_dit import small_generator

    made = small_generator(latent=True)
    save_dit(made.network, folder / "dit", made.config, scheduler=made.scheduler, vae=made.vae)
    return folder / "dit"


def ask_generator(folder: Path) -> None:
    """A generator that draws an image."""
    from memorisk.models.generators.generators import Draw, load_generator
    from memorisk.models.settings import SamplingOptions

    found = load_generator(folder)
    labels = np.zeros(1, dtype=np.int64) if found.config.conditioned_on == "class" else None
    how = SamplingOptions(sampling_steps=2) if found.config.kind == "dit" else SamplingOptions()
    image = found.sample(Draw(np.array([3]), labels), how, device="cpu")
    assert image.dtype == np.uint8


def latent_detector(folder: Path) -> Path:
    """A small Siamese detector of pixels."""
    from tests.models.test_lcmem import made

    made(folder).save(folder / "detector")
    return folder / "detector"


def ask_detector(folder: Path) -> None:
    """A detector, opened."""
    from memorisk.models.copy_detectors import load_detector

    load_detector(folder)


def autoencoder_folder(folder: Path) -> Path:
    """A small autoencoder of diffusers."""
    from tests.models.small_autoencoder import autoencoder_folder as made

    return made(folder / "vae")


def ask_autoencoder(folder: Path) -> None:
    """An encoder of latents by its folder."""
    from memorisk.models.latents import open_latents

    open_latents(f"autoencoder:{folder}", (16, 16, 1)).load()


def measure_files(folder: Path) -> list[Path]:
    """A fitted distance measure."""
    from memorisk.scores.distances import fit_measure

    fit_measure("mahalanobis", np.random.default_rng(0).normal(size=(40, 4))).save(folder / "a.safetensors")
    return [folder / "a.safetensors"]


def ask_measure(file: Path) -> None:
    """The measure again."""
    from memorisk.scores.distances.measures import FittedMeasure

    FittedMeasure.load(file)


def model_targets() -> Sequence[Target]:
    """Every file and folder of a model."""
    files = (
        ("onnx checks", "the checks of an ONNX file", (".onnx",), _onnx, ask_checked),
        ("onnx", "ONNX files, asked", (".onnx",), _onnx, ask_predictor),
        ("weights", "safetensors, PyTorch, npz", (".safetensors", ".pt", ".npz"), weights_files, ask_weights),
        ("outputs", "saved outputs", (".npz",), outputs_files, ask_outputs),
        ("features", "saved features", (".npy", ".npz", ".parquet"), features_files, ask_features),
        ("measure", "a fitted distance", (".safetensors",), measure_files, ask_measure),
    )
    gan, vae = ("generator.json", "weights.safetensors"), ("config.json", "diffusion_pytorch_model.safetensors")
    detector = ("detector.json", "seen.parquet", "encoder/encoder.json")
    folders = (
        ("gan", "a GAN's folder, drawn from", gan_folder, gan, ask_generator),
        ("dit", "a DiT's folder, drawn from", dit_folder, ("generator.json", *_DIT), ask_generator),
        ("detector", "a detector's folder", latent_detector, detector, ask_detector),
        ("autoencoder", "an autoencoder's folder", autoencoder_folder, vae, ask_autoencoder),
    )
    return (*(of_file(*one) for one in files), *(of_folder(*one) for one in folders))
