"""What memorisk reads back from the disk: run folders, detectors, generators, weights, exports, settings."""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from tests.fuzz.packing import by_name, inside_zip
from tests.fuzz.target import Target

for _module in (
    "audits.compare", "audits.evidence", "audits.filter.filtering", "audits.generators.config", "audits.losses",
    "audits.rendering", "audits.synthetic.audit", "audits.unique.config", "cli", "models.detectors", "models.dit",
    "models.lcmem", "models.latents", "models.onnx_files", "models.predictors", "models.predictor_export",
    "models.predictor_onnx", "models.saved_outputs", "models.features_saved", "models.stylegan2", "models.weights",
    "scores.distances.fitted",
):  # fmt: skip
    import_module(f"memorisk.{_module}")  # now, while imports are instrumented, and once for all turns

_QUICK = {"models": 2, "epochs": 1, "processes": 1, "fail_on": "never"}


@cache
def _made(make: Callable[[Path], Path]) -> Path:
    """A sound folder of its kind, made once and left as it is; a later run of the fuzzer finds it."""
    place = Path(tempfile.gettempdir()) / "memorisk-fuzz-made" / make.__name__
    note = place / "made"
    if not note.is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        note.write_text(str(make(place).relative_to(place)))
    return place / note.read_text()


def of_folder(
    name: str, reads: str, make: Callable[[Path], Path], files: Sequence[str], ask: Callable[[Path], Any]
) -> Target:
    """A folder of which one file was changed: which one, the first byte says."""

    def seeds(folder: Path) -> list[bytes]:
        """The files as they are."""
        sound = _made(make)
        ask(sound)  # it must be: else nothing is fuzzed but one refusal
        return [bytes([k]) + (sound / file).read_bytes() for k, file in enumerate(files)]

    def changed(data: bytes, folder: Path) -> Any:
        """Ask about a copy with the changed file."""
        copy = folder / "made"
        shutil.copytree(_made(make), copy)
        file = copy / files[data[0] % len(files) if data else 0]
        file.write_bytes(data[1:])
        return ask(copy)

    def repack(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
        """The file that is meant stays; it is changed as its kind asks for."""
        suffix = Path(files[data[0] % len(files) if data else 0]).suffix
        return data[:1] + by_name(suffix, data[1:], change, size - 1)

    return Target(name, reads, seeds, changed, repack)


def of_file(
    name: str, reads: str, suffixes: Sequence[str], make: Callable[[Path], list[Path]], ask: Callable[[Path], Any]
):
    """A file of its own; its suffix by the first byte."""

    def seeds(folder: Path) -> list[bytes]:
        """Sound files."""
        found = make(folder)
        for file in found:
            ask(file)
        return [bytes([suffixes.index(file.suffix)]) + file.read_bytes() for file in found]

    def changed(data: bytes, folder: Path) -> Any:
        """Ask about the changed file."""
        file = folder / f"input{suffixes[data[0] % len(suffixes) if data else 0]}"
        file.write_bytes(data[1:])
        return ask(file)

    def repack(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
        """The suffix stays; archives are changed inside."""
        return data[:1] + inside_zip(data[1:], change, size - 1)

    return Target(name, reads, seeds, changed, repack)


# Run folders


def classifier_run(folder: Path) -> Path:
    """A finished audit of a classifier on digits."""
    import memorisk

    memorisk.audit_classifier("digits", out=folder / "run", **_QUICK, sample=120, discard_weights=True)
    for heavy in ("logits", "checkpoints", "weights"):
        shutil.rmtree(folder / "run" / heavy, ignore_errors=True)
    return folder / "run"


def synthetic_run(folder: Path) -> Path:
    """A finished audit of synthetic digits."""
    import memorisk
    from tests.audits.synthetic_set.making import write_sets

    sets = write_sets(folder, copied=5)
    out = folder / "run"
    memorisk.audit_synthetic(sets["train"], sets["set"], out=out, held_out=sets["held"], detector="pixels")
    return out


def filter_run(folder: Path) -> Path:
    """A finished filter of digits."""
    import memorisk
    from tests.audits.filter_set.making import OF, write_folders

    sets = write_folders(folder)
    memorisk.filter_synthetic(sets["train"], sets["set"], folder / "run", calibration=sets["new"], **OF)
    return folder / "run"


_DIT = ("model_index.json", "transformer/config.json", "scheduler/scheduler_config.json", "vae/config.json")
_RESULT = ("verdict.json", "summary.json", "config.yaml")
_TABLES = ("per_class.parquet", "per_group.parquet", "per_image.parquet", "attacks.parquet")


def ask_render(folder: Path) -> None:
    """The report again, or redacted."""
    from memorisk.audits.rendering import render_again

    render_again(folder, redact=(folder / "verdict.json").stat().st_size % 2 == 1)  # a second or more each


def ask_compare(folder: Path) -> None:
    """The comparison with itself, its page too."""
    from memorisk.audits.compare import compare

    compare(folder, _made(classifier_run)).save(folder.parent / "compared")


def ask_resume(folder: Path) -> None:
    """The out folder of a command that is given again."""
    from memorisk.runs.folder import check_out, open_run

    config = yaml.safe_load((_made(_config_folder) / "config.yaml").read_text())
    check_out(folder, config, identity=["run"])
    with open_run(folder, config, identity=["run"]):
        pass


def ask_losses(file: Path) -> None:
    """A table of losses as evidence."""
    from memorisk.audits.evidence import evidence_from_table
    from memorisk.audits.losses import read_scores, with_losses

    evidence_from_table(with_losses(read_scores(file)))


def losses_files(folder: Path) -> list[Path]:
    """Score tables with losses and with logits."""
    table = pd.read_parquet(_made(classifier_run) / "scores.parquet")
    table = table[table["image"].isin(table["image"].unique()[::4])]
    table.to_parquet(folder / "a.parquet")
    table.to_csv(folder / "a.csv", index=False)
    rng = np.random.default_rng(0)
    logits = table.drop(columns=[c for c in ("loss", "margin", "correct") if c in table])
    names = sorted(set(table["label"]))
    logits.assign(**{f"logit:{c}": rng.normal(size=len(logits)) for c in names}).to_csv(folder / "b.csv", index=False)
    return [folder / "a.parquet", folder / "a.csv", folder / "b.csv"]


# Models


def _exported(folder: Path) -> list[Path]:
    from tests.models.small_models import small, write_export

    return [write_export(folder / "a.pt2", small())]


def _onnx(folder: Path) -> list[Path]:
    from tests.models.small_models import small
    from tests.models.small_onnx import write_onnx

    return [write_onnx(folder / "a.onnx", small()) or folder / "a.onnx"]


def ask_predictor(file: Path) -> None:
    """A model that is asked for its answers to two images."""
    from memorisk.models.predictors import load_predictor
    from tests.models.small_models import HALF, images

    load_predictor(str(file), preprocessing=HALF, device="cpu").probabilities(images(2))


def ask_checked(file: Path) -> None:
    """The checks of a file before a library opens it."""
    if file.suffix == ".onnx":
        from memorisk.models.onnx_files import check_onnx

        check_onnx(file)
    else:
        from memorisk.models.export_archive import read_archive

        read_archive(file)


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
    from memorisk.models.weights import read_state_dict

    read_state_dict(file)


def outputs_files(folder: Path) -> list[Path]:
    """Saved outputs with references."""
    from memorisk.models.saved_outputs import write_saved_outputs

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
    from memorisk.models.saved_outputs import SavedOutputs

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
    from memorisk.models.features_saved import read_features

    assert len(read_features(file, np.array(list("abcd"), dtype=object))) == 4


def gan_folder(folder: Path) -> Path:
    """A small GAN."""
    from memorisk.models.stylegan2 import save_gan
    from tests.models.test_stylegan2 import generator

    found = generator()
    save_gan(found.network, folder / "gan", found.config, seen=None)
    return folder / "gan"


def dit_folder(folder: Path) -> Path:
    """A small diffusion transformer with an autoencoder."""
    from memorisk.models.dit_folder import save_dit
    from tests.models.small_dit import small_generator

    made = small_generator(latent=True)
    save_dit(made.network, folder / "dit", made.config, scheduler=made.scheduler, vae=made.vae)
    return folder / "dit"


def ask_generator(folder: Path) -> None:
    """A generator that draws an image."""
    from memorisk.models.generators import Draw, load_generator
    from memorisk.models.sampling_options import SamplingOptions

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
    from memorisk.models.detectors import load_detector

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
    from memorisk.scores.distances.fitted import FittedMeasure

    FittedMeasure.load(file)


# Settings


def settings_files(folder: Path) -> list[Path]:
    """Settings of several commands, as --print-config writes them, and whole studies."""
    recipes = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.yaml"))
    files = []
    for k, recipe in enumerate(recipes):
        if recipe.stat().st_size < 4000:
            (folder / f"{k}.yaml").write_bytes(recipe.read_bytes())
            files.append(folder / f"{k}.yaml")
    plain = {"images": "digits", "models": 4, "epochs": 3, "lr": "3e-4", "holdout": 0.2, "arms": ["matched"]}
    (folder / "plain.yaml").write_text(yaml.safe_dump(plain))
    return [*files, folder / "plain.yaml"]


def ask_settings(file: Path) -> None:
    """The file as settings of every command and as every study."""
    from memorisk.audits.generators.config import read_generators
    from memorisk.audits.unique.config import read_unique
    from memorisk.cli import main
    from memorisk.cli_settings import read_yaml
    from memorisk.runs.errors import MemoriskError

    config = read_yaml(file, flags=False)
    for read in (read_generators, read_unique):
        with contextlib.suppress(MemoriskError):  # it is another command's file
            read(config)
    commands = (("audit", "classifier", "digits"), ("filter", "s"), ("train", "generator", "digits"))
    command = commands[len(file.read_bytes()) % len(commands)]  # it takes a fifth of a second
    said = _said(main, [*command, "--out", str(file.parent / "out"), "--config", str(file), "--print-config"])
    assert "unexpected" not in said, said
    assert not (file.parent / "out").exists()


def _said(main: Callable[[list[str]], int], arguments: list[str]) -> str:
    """What a command writes to standard error."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(arguments)
    assert code in (0, 1, 2), (code, err.getvalue())
    return err.getvalue()


def own_targets() -> Sequence[Target]:
    """Every file of memorisk's own, and of models."""
    runs = (
        ("report", "a classifier's run: memorisk report", classifier_run, (*_RESULT, *_TABLES), ask_render),
        ("compare", "a run: memorisk compare", classifier_run, (*_RESULT, _TABLES[0], "scores.parquet"), ask_compare),
        ("report synthetic", "a run of audit synthetic", synthetic_run, (*_RESULT, _TABLES[2]), ask_render),
        ("report filter", "a run of filter", filter_run, (*_RESULT, _TABLES[2]), ask_render),
        ("config", "config.yaml of a run to go on with", _config_folder, ("config.yaml",), ask_resume),
    )
    files = (
        ("losses", "score tables, CSV and Parquet", (".parquet", ".csv"), losses_files, ask_losses),
        ("settings", "YAML of commands and studies", (".yaml",), settings_files, ask_settings),
        ("export", ".pt2 of torch.export, asked", (".pt2",), _exported, ask_predictor),
        ("onnx checks", "the checks of an ONNX file", (".onnx",), _onnx, ask_checked),
        ("onnx", "ONNX files, asked", (".onnx",), _onnx, ask_predictor),
        ("weights", "safetensors, PyTorch, npz", (".safetensors", ".pt", ".npz"), weights_files, ask_weights),
        ("outputs", "saved outputs", (".npz",), outputs_files, ask_outputs),
        ("features", "saved features", (".npy", ".npz", ".parquet"), features_files, ask_features),
        ("measure", "a fitted distance", (".safetensors",), measure_files, ask_measure),
    )
    gan, vae = ("generator.json", "weights.safetensors"), ("config.json", "diffusion_pytorch_model.safetensors")
    detector = ("detector.json", "seen.parquet", "encoder/encoder.json")
    models = (
        ("gan", "a GAN's folder, drawn from", gan_folder, gan, ask_generator),
        ("dit", "a DiT's folder, drawn from", dit_folder, ("generator.json", *_DIT), ask_generator),
        ("detector", "a detector's folder", latent_detector, detector, ask_detector),
        ("autoencoder", "an autoencoder's folder", autoencoder_folder, vae, ask_autoencoder),
    )
    return (*(of_folder(*one) for one in runs), *(of_file(*one) for one in files), *(of_folder(*one) for one in models))


def _config_folder(folder: Path) -> Path:
    """A run folder of which only the settings are asked."""
    (folder / "run").mkdir()
    (folder / "run" / "config.yaml").write_text(
        yaml.safe_dump({"images": "digits", "models": 4, "run": {"data_hash": "0", "deep": {"n": [1, 2.5, None]}}})
    )
    return folder / "run"
