"""Small finished runs of every kind that a statement knows, made once; in folders, as a user has them."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.classifier.evidence import write_scores
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.feature.run import audit_feature
from memorisk.audits.filter.run import filter_synthetic
from memorisk.audits.quality.run import assess_quality
from memorisk.audits.release.export import release
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.released_weights import write_released
from memorisk.report.statements.envelope import InTotoStatement
from memorisk.report.statements.statement import content_sha256
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.files import write_json
from tests.audits.made_evidence import twin_evidence
from tests.audits.synthetic.making import parts

PASSES = {"detector": "pixels", "plant_kinds": ("exact", "flipped")}
TRIED = PASSES["plant_kinds"]
"""Kinds of copies that a pass of these runs is about: a gate is told that the release needs no others."""
FEATURE = {"mark": "text:DOE", "mark_scale": 1, "text_height": 5, "probes": "held", "size": 24,
           "normalise": "0.5/0.25", "n_controls": 19, "redraws": 1}  # fmt: skip
OF = {"group_from": r"([a-z]+\d+)_"}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``runs/KIND`` of every kind, and the images and weights that they looked at."""
    root = tmp_path_factory.mktemp("release")
    make_runs(root)
    return root


def make_runs(root: Path) -> None:
    """Make ``runs/KIND`` of every kind in a folder, and what they look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(root / "config"))
        patch.chdir(root)
        _folders(root)
        _sets()
        _models(root)


@pytest.fixture
def runs(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the working directory: runs name their files from there."""
    monkeypatch.chdir(made)
    return made


def _folders(root: Path) -> None:
    """Training, held-out and generated images; of the last one set without copies, as a release, and one of copies."""
    train, held, made = parts()
    noise = np.random.default_rng(5).integers(-6, 7, train[:16].shape)
    copies = np.clip(train[:16].astype(int) + noise, 0, 255).astype(np.uint8)
    for name, images in {"train": train, "held": held, "drawn": made, "copies": np.r_[copies, made[16:]]}.items():
        (root / name).mkdir()
        for row, image in enumerate(images):
            Image.fromarray(image[..., 0]).save(root / name / f"{name}{row:04d}_0.png")
    release("drawn", "clean")


def _sets() -> None:
    """The runs about images."""
    for name in ("clean", "copies"):
        audit_synthetic("train", name, held_out="held", out=f"runs/{name}", **PASSES, **OF)
    filter_synthetic("train", "copies", "runs/filter", calibration="held", families=("noise:0.1",), detector="pixels",
                     auditor="pca:16", **OF)  # fmt: skip
    assess_quality("train", "clean", held_out="held", out="runs/quality", features=("pixels",), **OF)
    train, held, made = parts()
    for name, drawn in (("watch", train), ("calm", made)):
        settings = {"detector": "pixels", "images": 60, "looks": 2, "quality": "none", "stop_on": "share"}
        with MemorizationWatch(train, held, out=f"runs/{name}", stop=False, **settings) as watch:
            watch.look(100, lambda n, seed, drawn=drawn: drawn[:n])
            watch.report()


def _models(root: Path) -> None:
    """The runs about models."""
    write_scores(root / "scores.parquet", twin_evidence(sizes={"a": 40, "b": 40}, n_test=40, n_seeds=8, seed=2))
    audit_losses("scores.parquet", out="runs/losses")
    (root / "models").mkdir()
    model = create_model("small_cnn", num_classes=3, in_chans=1, image_size=24, weights="none", seed=0)
    write_released(root / "models" / "net.safetensors", model)
    audit_feature("small_cnn@models/net.safetensors", out="runs/feature", **FEATURE)


def rewritten(
    run: Path, out: Path, *, verdict: Mapping[str, Any] | None = None, change: Callable[[Path], None] | None = None
) -> Path:
    """A copy of a finished run that says something else, sealed anew; None takes a key of the verdict away."""
    shutil.copytree(run, out)
    absent = {k for k, v in (verdict or {}).items() if v is None}
    for name in ("filter.json", "synthesize.json", "verdict.json"):
        if (out / name).is_file():
            saved = json.loads((out / name).read_text()) | dict(verdict or {})
            write_json(out / name, {k: v for k, v in saved.items() if k not in absent}, recorded=name != "verdict.json")
    if change is not None:
        change(out)
    log = (out / "log.jsonl").read_text().splitlines()
    last = json.loads(log[-1]) | {"status": json.loads((out / "verdict.json").read_text())["status"]}
    (out / "log.jsonl").write_text("\n".join([*log[:-1], json.dumps(last)]))
    names = [name for name in sealed_files(out) if (out / name).is_file()]
    (out / SEAL).unlink()
    write_seal(out, names)
    return out


def restated(told: Mapping[str, Any], file: Path) -> Path:
    """A statement that was changed, written with its own checksum as whoever made it would have."""
    predicate = {k: v for k, v in told["predicate"].items() if k != "content_sha256"}
    found = InTotoStatement.from_bytes(json.dumps(told).encode(), "statement")
    predicate["content_sha256"] = content_sha256(predicate, found.subject)
    file.write_text(json.dumps({**told, "predicate": predicate}))
    return file
