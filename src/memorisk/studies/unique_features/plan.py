"""Models that the study trains: canaries, references, and trainings that show which images are influential.

Seeds. In the corrected protocol every model has a seed of its own, a function of the study's seed and of the model's
role, so that canary models and references are draws of one law where the mark does nothing. In the paper's
protocol the models of a run share one seed.

Cost. A training is counted to its last epoch, with the queries of its model afterwards: it may end before its time.

Names. Networks and regularisers are written as paper 002 writes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.models.classifiers.specs import model_spec
from memorisk.runs.environment import check_device
from memorisk.runs.files import fingerprint, read_array
from memorisk.runs.workload import Cost, total
from memorisk.studies.unique_features.canary_training import N_CHECKPOINTS, PROFILE_CONTROLS, CanaryJob, run_canary
from memorisk.studies.unique_features.config import (
    PLAIN,
    STUDIES,
    UniqueStudy,
    network_name,
    patience_of,
    train_options,
)
from memorisk.studies.unique_features.dataset import SetData
from memorisk.training.classifiers.joint_jobs import fit_cost, tensor_bytes
from memorisk.training.engine.pixels import Normalisation, choose_normalisation

_ANSWERS = 3  # without the mark, with it, with it at opacity 0


def canary_cost(job: CanaryJob, *, known: bool, weights: int) -> Cost:
    """Estimate the cost of one training to its last epoch.

    Args:
        job: Job of the training.
        known: Whether its canary is the final one; a canary of the highest or lowest self-influence is chosen later,
            and its class is taken for the largest.
        weights: Number of bytes of its network where they are kept.

    Returns:
        Cost in steps, images and passes, all of them bounds; the size of the answers depends on the epoch that is
        taken.
    """
    epochs, n, v = job.options.epochs or 0, len(job.rows), len(job.validation)
    probes, controls = len(read_array(job.probes, mmap=True)), len(job.controls)
    n_images = v * (epochs + 1) + probes * (_ANSWERS + controls + job.redraws)
    n_images += 2 * job.redraws * _white_images(job, known) + (3 * probes if job.latent else 0)
    if job.profile:
        n_images += epochs * probes * (_ANSWERS + min(controls, PROFILE_CONTROLS) + 1)
    gradients = 0
    if job.influence:
        n_images += n
        gradients = min(N_CHECKPOINTS, epochs) * (n if job.influence == "all" else 1)
    return fit_cost(n, job.options) + Cost(
        images_trained=gradients,
        images_passed=n_images,
        bytes_weights=weights if job.keep_weights else 0,
        bytes_outputs=None,
        at_most=("steps", "images_trained", "images_passed"),
    )


def _white_images(job: CanaryJob, known: bool) -> int:
    """Count the training images whose M_w is taken: all, or those of the canary's class without it."""
    labels = job.labels[job.rows]
    if job.canary is None:
        return len(labels)
    largest = int(np.unique(labels, return_counts=True)[1].max())
    return (int((labels == labels[job.canary]).sum()) if known else largest) - 1


BASE, REPEAT, REFERENCE, RANDOM, INFLUENCE, LATENT, MARKED = (
    "base", "again", "reference", "random", "influence", "latent", "marked",
)  # fmt: skip
"""Roles of a training: self-influence of all images, the same with another seed, no mark, a canary at random, one of
the
highest or lowest self-influence, one of models that start alike, the base's training with the mark on one image."""


CONTROL = "control"
"""Kind of a training whose image carries one of the mark's controls instead of the mark."""


@dataclass(frozen=True)
class Arm:
    """A network on a data set under a regulariser."""

    dataset: str
    """Name of the data set."""
    network: str
    """Plain name of the network."""
    regulariser: str = PLAIN
    """Regulariser: `PLAIN`, or one of table 3."""


@dataclass(frozen=True, eq=False)
class Training:
    """One training and its role.

    Attributes:
        arm: Arm that it belongs to.
        role: Role of the training.
        index: Place of the canary in its list, or number of the reference.
        run: Number of the training among those of this canary.
        chosen: Choice of the canary: "highest", "lowest" or "random"; `CONTROL` for one with another mark; else "".
        job: Job that is run.
    """

    arm: Arm
    role: str
    index: int
    run: int
    chosen: str
    job: CanaryJob

    @property
    def key(self) -> str:
        """Return the key of its job: the same training for two purposes is one."""
        return self.job.key

    @property
    def name(self) -> str:
        """Name its arm in words."""
        return f"{self.arm.dataset}, {self.arm.network}, {self.arm.regulariser}"

    @property
    def done(self) -> bool:
        """Return whether its answers are there."""
        return self.job.done


def run_training(training: Training) -> str:
    """Run one training in any process; return its key."""
    return run_canary(training.job)


class Planner:
    """Planner of the trainings of one study in one folder.

    Args:
        study: Study as its file describes it.
        sets: Decoded data sets of the study.
        out: Folder of the study.
    """

    def __init__(self, study: UniqueStudy, sets: dict[str, SetData], out: Path) -> None:
        self.study, self.sets, self.out = study, sets, out
        self.options = study.options
        self.device = str(check_device(self.options.device))
        self._scales: dict[tuple[str, str | None, str], Normalisation] = {}

    def arms(self, study: str) -> list[Arm]:
        """Return the plain arms of one of the studies, or those of table 3 with every regulariser."""
        arms = []
        for name, dataset in self.study.datasets.items():
            for network in dataset.asks(study):
                kinds = dataset.regularisers if study == "regularised" else (PLAIN,)
                arms += [Arm(name, network, kind) for kind in kinds]
        return arms

    def ranked(self) -> list[Arm]:
        """Return the plain arms whose images are ranked by self-influence."""
        if not self.options.highest + self.options.lowest:
            return []
        arms = [Arm(a.dataset, a.network) for which in STUDIES if which != "random" for a in self.arms(which)]
        return list(dict.fromkeys(arms))

    def bases(self) -> list[Training]:
        """Return the trainings without the mark that give the self-influence of every image."""
        trainings = [self.training(arm, BASE, 0, influence="all") for arm in self.ranked()]
        return trainings + [self.training(arm, REPEAT, 0, influence="all") for arm in self.arms("characterised")]

    def others(self, by_influence: dict[Arm, np.ndarray]) -> list[Training]:
        """List all other trainings.

        Args:
            by_influence: Self-influence of each slot, [n], for every arm of `ranked`.
        """
        trainings: list[Training] = []
        plain = list(dict.fromkeys([*self.ranked(), *self.arms("random"), *self.arms("characterised")]))
        for arm in [*plain, *self.arms("regularised")]:
            trainings += self._references(arm)
        for arm in self.arms("random"):
            trainings += self._random(arm)
        for arm in list(dict.fromkeys([*self.arms("networks"), *self._plain_of_regularised()])):
            trainings += self._influential(arm, by_influence)
        for arm in self.arms("regularised"):
            trainings += self._influential(arm, by_influence)
        for arm in self.arms("characterised"):
            trainings += self._latent(arm) + self._marked(arm, by_influence)
        return trainings

    def any_influence(self) -> dict[Arm, np.ndarray]:
        """Return numbers in place of the self-influence of every image, as if it were known."""
        return {arm: np.arange(len(self.sets[arm.dataset].rows), dtype=float) for arm in self.ranked()}

    def count(self) -> dict[Arm, int]:
        """Count the trainings of each arm, before self-influence is known."""
        counted: dict[Arm, set[str]] = {}
        for training in [*self.bases(), *self.others(self.any_influence())]:
            counted.setdefault(training.arm, set()).add(training.job.key)
        return {arm: len(keys) for arm, keys in counted.items()}

    def cost(self, influences: dict[Arm, np.ndarray]) -> Cost:
        """Estimate the cost of all trainings that are not done, and of querying their models; each may end early.

        Args:
            influences: Self-influence of each slot, [n], for the arms of `ranked` whose self-influence is known.
        """
        every = self.others(self.any_influence() | influences)
        trainings = {t.job.key: t for t in [*self.bases(), *every] if not t.job.done}
        weights: dict[tuple[str, str], int] = {}
        decoded = {folder: size for data in self.sets.values() for folder, size in data.decoded.items()}
        parts = [Cost(bytes_images=sum(decoded.values()))]
        for training in trainings.values():
            job, of = training.job, (training.arm.dataset, training.job.network)
            if job.keep_weights and of not in weights:
                weights[of] = tensor_bytes(job.model())
            plain = Arm(training.arm.dataset, training.arm.network)
            known_epoch = plain in influences or training.role not in (INFLUENCE, MARKED)
            parts.append(canary_cost(job, known=known_epoch, weights=weights.get(of, 0)))
        return total(parts)

    def random_slots(self, arm: Arm, n: int) -> np.ndarray:
        """Return the slots of canaries drawn at random, the same for every network on a data set."""
        rng = np.random.default_rng([self.options.seed, 5])
        available = len(self.sets[arm.dataset].rows)
        return rng.permutation(available)[:n]

    def _references(self, arm: Arm) -> list[Training]:
        profiled = self.options.profiled if arm in self.arms("characterised") else 0
        return [self.training(arm, REFERENCE, r, profile=r < profiled) for r in range(self.options.references)]

    def _random(self, arm: Arm) -> list[Training]:
        profiled = self.options.profiled if arm in self.arms("characterised") else 0
        return [
            self.training(arm, RANDOM, i, run=k, canary=int(slot), chosen="random", profile=k == 0 and i < profiled)
            for k in range(self.options.runs)
            for i, slot in enumerate(self.random_slots(arm, self.options.random))
        ]

    def _influential(self, arm: Arm, by_influence: dict[Arm, np.ndarray]) -> list[Training]:
        """Plan canaries of the plain arm's highest and lowest self-influence; every regulariser has the same images."""
        values = by_influence.get(Arm(arm.dataset, arm.network))
        if values is None:
            return []
        return [
            self.training(arm, INFLUENCE, i, canary=slot, chosen=chosen)
            for i, (slot, chosen) in enumerate(chosen_slots(values, self.options.highest, self.options.lowest))
        ]

    def _plain_of_regularised(self) -> list[Arm]:
        """Return the plain arms that table 3 compares with: models that are not regularised."""
        return list(dict.fromkeys(Arm(a.dataset, a.network) for a in self.arms("regularised")))

    def _latent(self, arm: Arm) -> list[Training]:
        """Plan models that start alike, one canary each (A.6); as many with a control on the same image instead.

        What only the first models have is due to the mark: the two groups differ by one small pattern on one image.
        """
        seed, controls = self._seed(arm, LATENT, 0, 0), self.sets[arm.dataset].controls
        trainings: list[Training] = []
        for i, slot in enumerate(self.random_slots(arm, self.options.latent)):
            settings: dict[str, Any] = {"canary": int(slot), "latent": True, "seed": seed}
            trainings.append(self.training(arm, LATENT, i, chosen="random", **settings))
            other = controls[i % len(controls)]
            trainings.append(self.training(arm, LATENT, i, chosen=CONTROL, burnt=other, **settings))
        return trainings

    def _marked(self, arm: Arm, by_influence: dict[Arm, np.ndarray]) -> list[Training]:
        """Plan the base's own training once more, with the mark on its most, and on its least, influential images."""
        values = by_influence.get(arm)
        if values is None:
            return []
        n = self.options.influenced
        seed = self._seed(arm, BASE, 0, 0)
        return [
            self.training(arm, MARKED, i, canary=slot, chosen=chosen, influence="canary", seed=seed)
            for i, (slot, chosen) in enumerate(chosen_slots(values, n, n))
        ]

    def _seed(self, arm: Arm, role: str, index: int, run: int) -> int:
        """Derive the seed of one model."""
        if self.study.protocol == "paper" and role != REPEAT:
            role, index = "", 0  # one seed for all models of a run
        identity = [self.options.seed, arm.dataset, arm.network, arm.regulariser, role, index, run]
        return int(fingerprint(identity, length=8), 16)

    def training(
        self, arm: Arm, role: str, index: int, *, run: int = 0, chosen: str = "", seed: int | None = None, **fields: Any
    ) -> Training:
        """Describe one training.

        Args:
            arm: Network, data set and regulariser.
            role: Role of the training.
            index: Place of the canary in its list, or number of the reference.
            run: Number of the training among those of this canary.
            chosen: Choice of the canary, as in `Training`.
            seed: Random seed of the training; by default one of its own.
            **fields: Further attributes of `CanaryJob`.
        """
        data = self.sets[arm.dataset]
        options = train_options(
            self.study, arm.network, arm.regulariser, data.channels, self.study.datasets[arm.dataset].augment
        )
        scale = self._scale(data, options.normalise, arm.network)
        job = CanaryJob(
            out=self.out,
            images=data.store.folder / "images.npy",
            probes=data.probes.folder / "images.npy",
            labels=data.labels,
            n_classes=len(data.classes),
            rows=data.rows,
            validation=data.validation,
            network=network_name(arm.network, arm.regulariser),
            options=options,
            patience=patience_of(self.study, options),
            normalisation=scale,
            seed=self._seed(arm, role, index, run) if seed is None else seed,
            mark=data.mark,
            controls=data.controls,
            redraws=self.options.redraws,
            draw_seed=self.options.seed,
            device=self.device,
            keep_weights=self.options.keep_weights,
            data=(data.store.data_hash, data.probes.data_hash),
            **fields,
        )
        return Training(arm, role, index, run, chosen, job)

    def _scale(self, data: SetData, normalise: str | None, network: str) -> Normalisation:
        """Choose the scaling of a network's pixels, counted once."""
        key = (data.name, normalise, network if normalise == "model" else "")
        if key not in self._scales:
            normalisation = choose_normalisation(data.store.images, normalise, model_spec(network))
            assert normalisation is not None  # images, never features
            self._scales[key] = normalisation
        return self._scales[key]


def chosen_slots(values: np.ndarray, highest: int, lowest: int) -> Sequence[tuple[int, str]]:
    """Return the slots of the highest and of the lowest self-influence, each with its kind; slots occur once."""
    order = np.argsort(-values, kind="stable")
    top = order[:highest]
    bottom = order[len(top) :][::-1][:lowest]
    return [*((int(s), "highest") for s in top), *((int(s), "lowest") for s in bottom)]


NETWORKS = {"mlp1": "MLP-1", "cnn1": "CNN-1", "cnn2": "CNN-2", "densenet100": "DenseNet"}
KINDS = {"dropout": "Dropout", "augmentation": "Data Augmentation", "batch_norm": "Batch Normalisation", PLAIN: "none"}


def arm_columns(arm: Arm) -> dict[str, str]:
    """Return the columns that name an arm."""
    return {"dataset": arm.dataset, "network": network_words(arm.network), "regulariser": regulariser_words(arm)}


def network_words(network: str) -> str:
    """Return the paper's name of a network."""
    return NETWORKS.get(network, network)


def regulariser_words(arm: Arm) -> str:
    """Return the paper's name of a regulariser: "Dropout & Data Augmentation"."""
    return " & ".join(KINDS.get(part, part) for part in arm.regulariser.split("+"))
