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
from memorisk.runs.environment import check_device, versions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import json_value, read_array, read_json, write_json, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.steps import metered
from memorisk.runs.workload import Progress, no_progress, total
from memorisk.statistics.privacy.patient_epsilon import replace_one_epsilon
from memorisk.statistics.quality.majority import against_majority
from memorisk.training.classifiers.jobs import CHECKPOINTS, LOGITS, WEIGHTS, TrainJob, check_job, run_training
from memorisk.training.classifiers.joint_jobs import fit_cost
from memorisk.training.classifiers.private import patient_epsilon, privacy_of
from memorisk.training.engine.data import Division, build_targets, training_labels
from memorisk.training.engine.options import TrainClassifierOptions, TrainOptions, resolve_options
from memorisk.training.engine.pixels import choose_normalisation
from memorisk.training.run import SUMMARY, TrainingCommand, TrainingPlan, open_images

WEIGHTS_FILE = "weights.safetensors"
NOISE = "noise"


@dataclass(frozen=True)
class TrainedClassifiers:
    """Classifiers of a run, by regime."""

    folder: Path
    """The run folder."""
    arms: dict[str, dict[str, Any]]
    """Content of ``training.json``, by regime."""


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
    return ClassifierCommand(images, out, settings_of(TrainClassifierOptions, settings), progress).train_arms()


class ClassifierCommand(TrainingCommand[TrainClassifierOptions, ImageStore, dict[str, TrainJob], TrainingPlan]):
    """The command ``memorisk train classifier``: a job for each regime, each in a folder of its own."""

    name = "classifier"

    def open(self) -> tuple[ImageStore, Division]:
        """Decode the images, draw the test part and make the targets."""
        options = self.options
        checks = (require_labels, partial(training_labels, head=options.head))
        store = open_images(self.images, options, self.progress, *checks)
        manifest = store.manifest
        self.labels = training_labels(manifest, options.head)
        if options.splits == "given":
            assert manifest.splits is not None  # `open_images` has looked
            lower = np.array([str(s).lower() for s in manifest.splits], dtype=object)
            part = np.where(lower == "training", "train", np.where(lower == "testing", "test", lower))
        else:
            linked = linked_groups(store.pixel_hashes, manifest.groups)
            shares, seed = (1 - options.held_out, 0.0, options.held_out), options.split_seed
            part = split_by_group(self.labels, manifest.groups, fractions=shares, seed=seed, linked=linked)
            part[part == NOT_AUDITABLE] = "train"
        rows = {str(name): np.flatnonzero(part == name) for name in dict.fromkeys(("train", "test", *part.tolist()))}
        for name in ("train", "test"):
            if not len(rows[name]):
                raise InputError(f"{one_line(manifest.name)} has no {name} images: classes need at least 7 groups each")
        self.targets = build_targets(self.labels, options.head)
        return store, Division(rows, manifest.groups.astype(str))

    def build(self) -> dict[str, TrainJob]:
        """Make the job of each regime, and check those that are not done."""
        jobs = {name: self._job(self.folder / name, arm) for name, arm in self.options.arms.items()}
        for name, job in jobs.items():
            _refuse_other(self.folder / name, job)
            if not job.done:
                check_job(job)
        return jobs

    def identity(self, training: dict[str, TrainJob]) -> dict[str, Any]:
        """Return nothing: regimes and settings may be added to a run."""
        return {}

    def estimate(self, training: dict[str, TrainJob], *, timed: bool) -> TrainingPlan:
        """Plan the trainings of the regimes that are not done; none is timed."""
        cost = total([fit_cost(job.n_slots, job.options) for job in training.values() if not job.done])
        return TrainingPlan(self.parts.counts, cost.steps or 0, float("nan"), (), cost)

    def train_arms(self) -> TrainedClassifiers:
        """Train the classifiers in a folder each, or read those that are done; errors as for `train`."""
        jobs = self.build()
        with self.opened(jobs) as run:
            plan = self.estimate(jobs, timed=False)
            if plan.steps:
                self.progress(plan.opening, 0, 0)
            self.note_start(run)
            with metered(partial(self.progress, "training"), plan.steps):
                arms = {name: self._train(run, name, job) for name, job in jobs.items()}
            run.log("finished")
        return TrainedClassifiers(self.folder, arms)

    def _job(self, out: Path, arm: TrainOptions) -> TrainJob:
        images, options = self.source.images, self.options
        name = auto_model(int(images.shape[1])) if options.model == "auto" else options.model
        spec = model_spec(name)
        train = resolve_options(TrainOptions(**{f.name: getattr(arm, f.name) for f in fields(TrainOptions)}), spec)
        return TrainJob(
            out=out,
            images=self.source.folder / "images.npy",
            rows=self.parts.rows["train"],
            targets=self.targets.values,
            n_outputs=self.targets.n_outputs,
            model=name,
            weights=options.weights,
            options=train,
            normalisation=choose_normalisation(images, train.normalise, spec),
            seed=options.seed,
            device=str(check_device(options.device)),
            threads=options.threads,
            checkpoint_seconds=options.checkpoint_seconds,
            secret_noise=_noise(out) if train.private else None,
        )

    def _train(self, run: RunFolder, name: str, job: TrainJob) -> dict[str, Any]:
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
        summary = json_value({"job": job.key, "regime": name, **self._described(job), "notes": list(log.notes)})
        write_json(written, summary, recorded=True)
        return summary

    def _described(self, job: TrainJob) -> dict[str, Any]:
        """Describe one model for ``training.json``."""
        return {
            "model": job.model,
            "weights": job.weights,
            "seed": job.seed,
            "classes": list(self.targets.classes),
            "options": asdict(job.options),
            "normalisation": None if job.normalisation is None else asdict(job.normalisation),
            "image_size": list(self.source.images.shape[1:]),
            "n_trained": len(job.rows),
            "privacy": self._promise(job) if job.options.private else None,
            "held_out": None if job.options.head == "multi" else self._held_out(job),
            "data_hash": self.source.data_hash,
            "versions": versions(),
        }

    def _promise(self, job: TrainJob) -> dict[str, Any]:
        privacy = privacy_of(len(job.rows), job.options)
        spent = (privacy.noise_multiplier, privacy.sampling_rate, privacy.steps, privacy.delta)
        groups_given = self.source.manifest.groups_given
        return {
            **asdict(privacy),
            "accountant": "RDP, Poisson sampling, one image added or removed",
            "replace_one_epsilon": replace_one_epsilon(*spent),
            **patient_epsilon(privacy, self.parts.groups[job.rows], known=groups_given),
            "not_covered": [
                "the choice of settings",
                "the number of images",
                "pixel statistics, where normalise is dataset",
            ],
        }

    def _held_out(self, job: TrainJob) -> dict[str, Any]:
        """Compute accuracy on unseen images and that of the majority class."""
        test, labels = self.parts.rows["test"], self.labels
        logits = np.asarray(read_array(job.logits_file, mmap=True)[test], dtype=np.float64)
        answer = (logits[:, 0] > 0).astype(int) if job.options.head == "binary" else logits.argmax(axis=1)
        names, counts = np.unique(labels[job.rows].astype(str), return_counts=True)
        majority, correct = str(names[counts.argmax()]), answer == self.targets.values[test].astype(int)
        accuracy = against_majority(correct, labels[test], self.parts.groups[test], majority)
        return {"majority_class": majority, **asdict(accuracy), "beats_majority": accuracy.beats_majority}


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
