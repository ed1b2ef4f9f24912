"""Train the classifier that is to be released, by each chosen regime (``memorisk train classifier``).

One folder holds one folder per regime (``full``, ``lora``, ``dp-lora-8``) with ``weights.safetensors`` and
``training.json``: the settings, the accuracy on images that the model did not see, and the privacy that it promises;
and one ``manifest.parquet`` that records the part of each image, from which the very model can be audited: ``memorisk
audit classifier OUT/manifest.parquet --image-root DATA --splits given --target OUT/full/weights.safetensors``.

The noise of a private training comes from the system's entropy. It is kept in the folder, readable by its owner alone,
while the training lasts, so that a killed one continues, and removed with it: an attacker who can draw the noise again
has no privacy to overcome.
"""

import secrets
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import require_labels
from memorisk.images.splits import NOT_AUDITABLE, split_by_group
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import auto_model, model_spec
from memorisk.runs.checksums import move_recorded, refuse_damaged, remove_recorded
from memorisk.runs.environment import check_device, machine, versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import json_value, read_array, read_json, write_json, write_text
from memorisk.runs.folder import RunFolder, open_run
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.steps import metered
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.epsilon import replace_one_epsilon
from memorisk.statistics.quality.utility import against_majority
from memorisk.training.classifiers.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, check_job, run_training
from memorisk.training.classifiers.joint_jobs import fit_cost
from memorisk.training.classifiers.private import patient_epsilon, privacy_of
from memorisk.training.engine.data import Targets, build_targets, training_labels
from memorisk.training.engine.options import TrainClassifierOptions, TrainOptions, resolve_options
from memorisk.training.engine.pixels import choose_normalisation
from memorisk.training.run import MANIFEST, SUMMARY, check_folder, open_images

WEIGHTS_FILE = "weights.safetensors"
NOISE = "noise"


@dataclass(frozen=True)
class TrainedClassifiers:
    """Classifiers of a run, by regime."""

    folder: Path
    """The run folder."""
    arms: dict[str, dict[str, Any]]
    """Content of ``training.json``, by regime."""


@dataclass(frozen=True)
class _Data:
    """Everything that the regimes share."""

    store: ImageStore
    part: np.ndarray
    groups: np.ndarray
    groups_known: bool
    labels: np.ndarray
    targets: Targets


@takes_settings(TrainClassifierOptions)
def train_classifier(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> TrainedClassifiers:
    """Train one classifier per regime, and measure each on images that none of them saw.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainClassifierOptions`; ``regime`` and ``epsilon`` may name several.

    Returns:
        Classifiers that were trained, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MemoriskError: A training failed; what is done is kept.
    """
    options = settings_of(TrainClassifierOptions, settings)
    folder = check_folder(images, out)
    data = _data(images, options, progress)
    jobs = {name: _job(folder / name, data, options, arm) for name, arm in options.arms.items()}
    for name, job in jobs.items():
        _refuse_other(folder / name, job)
        if not job.done:
            check_job(job)
    config = {"images": str(images), "out": str(folder), **asdict(options)}
    split = [options.splits, options.split_seed, options.held_out]
    fixed = {"train": "classifier", "data_hash": data.store.data_hash, "split": split}
    with open_run(folder, config | {"run": fixed}, identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        data.store.manifest.save(run.path / MANIFEST, split=data.part.astype(str))
        arms = {}
        total = sum(fit_cost(job.n_slots, job.options).steps or 0 for job in jobs.values() if not job.done)
        with metered(partial(progress, "training"), total):
            for name, job in jobs.items():
                arms[name] = _train(run, name, job, data, options)
        run.log("finished")
    return TrainedClassifiers(folder, arms)


def _data(images: str | Path, options: TrainClassifierOptions, progress: Progress) -> _Data:
    """Decode the images and draw the test part."""
    store = open_images(images, options, progress, require_labels, partial(training_labels, head=options.head))
    manifest = store.manifest
    labels = training_labels(manifest, options.head)
    if options.splits == "given":
        assert manifest.splits is not None  # `open_images` has looked
        lower = np.array([str(s).lower() for s in manifest.splits], dtype=object)
        part = np.where(lower == "training", "train", np.where(lower == "testing", "test", lower))
    else:
        linked = linked_groups(store.pixel_hashes, manifest.groups)
        shares = (1 - options.held_out, 0.0, options.held_out)
        part = split_by_group(labels, manifest.groups, fractions=shares, seed=options.split_seed, linked=linked)
        part[part == NOT_AUDITABLE] = "train"
    for name in ("train", "test"):
        if not (part == name).any():
            raise InputError(f"{one_line(manifest.name)} has no {name} images: classes need at least 7 groups each")
    targets = build_targets(labels, options.head)
    return _Data(store, part, manifest.groups.astype(str), manifest.groups_given, labels, targets)


def _job(out: Path, data: _Data, options: TrainClassifierOptions, arm: TrainOptions) -> TrainJob:
    images = data.store.images
    name = auto_model(int(images.shape[1])) if options.model == "auto" else options.model
    spec = model_spec(name)
    train = resolve_options(TrainOptions(**{f.name: getattr(arm, f.name) for f in fields(TrainOptions)}), spec)
    device = str(check_device(options.device))
    return TrainJob(
        out=out,
        images=data.store.folder / "images.npy",
        rows=np.flatnonzero(data.part == "train"),
        targets=data.targets.values,
        n_outputs=data.targets.n_outputs,
        model=name,
        weights=options.weights,
        options=train,
        normalisation=choose_normalisation(images, train.normalise, spec),
        seed=options.seed,
        device=device,
        threads=options.threads,
        checkpoint_seconds=options.checkpoint_seconds,
        secret_noise=_noise(out) if train.private else None,
    )


def _refuse_other(folder: Path, job: TrainJob) -> None:
    """Refuse to replace a trained model by one of other settings: it may be the one that was released.

    Raises:
        InputError: The folder holds another model.
    """
    file = folder / SUMMARY
    if not file.is_file() or read_json(file).get("job") == job.key:
        return
    before = read_json(file)
    was = {**before.get("options", {}), **{k: before.get(k) for k in ("model", "weights", "seed")}}
    wanted = json_value({**asdict(job.options), "model": job.model, "weights": job.weights, "seed": job.seed})
    changed = [f"{k} = {one_line(was.get(k), 40)}, now {one_line(v, 40)}" for k, v in wanted.items() if was.get(k) != v]
    raise InputError(
        f"--out {one_line(folder)} holds a model trained otherwise ({'; '.join(changed[:2]) or 'on other images'}): "
        "name another folder, or delete that one"
    )


def _noise(out: Path) -> int:
    """Return the noise's seed of a killed training that continues, or a new one, from the system's entropy."""
    file = out / NOISE
    refuse_damaged(file)
    return int(file.read_text()) if file.is_file() else secrets.randbits(128)


def _train(run: RunFolder, name: str, job: TrainJob, data: _Data, options: TrainClassifierOptions) -> dict[str, Any]:
    folder = run.subfolder(name)
    written = folder / SUMMARY
    refuse_damaged(folder / WEIGHTS_FILE)  # a private training would draw other noise
    if written.is_file() and read_json(written).get("job") == job.key and (folder / WEIGHTS_FILE).is_file():
        return read_json(written)
    for inner in (LOGITS, WEIGHTS, CHECKPOINTS):
        (folder / inner).mkdir(mode=0o700, exist_ok=True)
    if job.secret_noise is not None and not job.done:
        write_text(folder / NOISE, str(job.secret_noise), recorded=True)
    log = run_training(job)
    run.log("trained", regime=name, **asdict(log))
    remove_recorded(folder / NOISE)
    weights_file = folder / WEIGHTS / f"{job.key}.safetensors"
    if weights_file.is_file():
        move_recorded(weights_file, folder / WEIGHTS_FILE)
    summary = json_value({"job": job.key, "regime": name, **_described(job, data), "notes": list(log.notes)})
    write_json(written, summary, recorded=True)
    return summary


def _described(job: TrainJob, data: _Data) -> dict[str, Any]:
    """Describe one model for ``training.json``."""
    return {
        "model": job.model,
        "weights": job.weights,
        "seed": job.seed,
        "classes": list(data.targets.classes),
        "options": asdict(job.options),
        "normalisation": None if job.normalisation is None else asdict(job.normalisation),
        "image_size": list(data.store.images.shape[1:]),
        "n_trained": len(job.rows),
        "privacy": _promise(job, data),
        "held_out": _held_out(job, data),
        "data_hash": data.store.data_hash,
        "versions": versions(),
    }


def _promise(job: TrainJob, data: _Data) -> dict[str, Any] | None:
    if not job.options.private:
        return None
    privacy = privacy_of(len(job.rows), job.options)
    spent = (privacy.noise_multiplier, privacy.sampling_rate, privacy.steps, privacy.delta)
    return {
        **asdict(privacy),
        "accountant": "RDP, Poisson sampling, one image added or removed",
        "replace_one_epsilon": replace_one_epsilon(*spent),
        **patient_epsilon(privacy, data.groups[job.rows], known=data.groups_known),
        "not_covered": [
            "the choice of settings",
            "the number of images",
            "pixel statistics, where normalise is dataset",
        ],
    }


def _held_out(job: TrainJob, data: _Data) -> dict[str, Any] | None:
    """Compute accuracy on unseen images and that of the majority class; None where an image has several findings."""
    if job.options.head == "multi":
        return None
    test = np.flatnonzero(data.part == "test")
    logits = np.asarray(read_array(job.logits_file, mmap=True)[test], dtype=np.float64)
    answer = (logits[:, 0] > 0).astype(int) if job.options.head == "binary" else logits.argmax(axis=1)
    names, counts = np.unique(data.labels[job.rows].astype(str), return_counts=True)
    correct = answer == data.targets.values[test].astype(int)
    accuracy = against_majority(correct, data.labels[test], data.groups[test], str(names[counts.argmax()]))
    return {
        "majority_class": str(names[counts.argmax()]),
        **asdict(accuracy),
        "beats_majority": accuracy.beats_majority,
    }
