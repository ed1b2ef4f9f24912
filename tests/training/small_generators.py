"""Generators that draw at once: noise of the seed, brighter by the class or the condition. Some keep no promise."""

import os
import signal
from dataclasses import dataclass, field, replace

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import Draw, check_draw
from memorisk.models.settings import GeneratorConfig, SamplingOptions

SIDE, CLASSES = 8, ["benign", "malignant"]
KILLED = "KILLED_AT"


def noise(seed: int, channels: int = 1) -> np.ndarray:
    """[8, 8, C] of one seed."""
    return np.random.default_rng(int(seed)).integers(0, 120, (SIDE, SIDE, channels), dtype=np.uint8)


def of_classes(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Images of two classes, [n, 8, 8]."""
    assert labels is not None
    return np.stack([noise(s)[..., 0] + np.uint8(100 * k) for s, k in zip(seeds, labels, strict=True)])


def in_colour(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Images without classes, [n, 8, 8, 3]."""
    return np.stack([noise(s, 3) for s in seeds])


def by_place(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Images that depend on where they stand in the call: none can be made again alone."""
    return np.stack([noise(s + place) for place, s in enumerate(seeds)])


def collapsed(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Always the same image."""
    return np.stack([noise(0) for _ in seeds])


def killed(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """As `of_classes`; where the environment says so, the process is killed at a certain image."""
    if os.environ.get(KILLED, "") in map(str, seeds.tolist()):
        os.kill(os.getpid(), signal.SIGKILL)
    return of_classes(seeds, labels)


for function in (of_classes, killed):
    function.classes = CLASSES  # pyright: ignore[reportFunctionMemberAccess]


@dataclass
class SmallGenerator:
    """A generator in this process that counts what it draws."""

    config: GeneratorConfig
    source: str = "small"
    known: Conditions | None = None
    drawn: list[int] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    @property
    def conditions(self) -> np.ndarray | None:
        return None if self.known is None else self.known.values

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        given = check_draw(self.config, draw)
        if not len(given):
            return np.zeros((0, SIDE, SIDE, self.config.channels), dtype=np.uint8)
        self.drawn += given.seeds.tolist()
        self.batches.append(len(given))
        brighter = np.zeros(len(given))
        if given.labels is not None:
            brighter = 100.0 * given.labels
        if given.conditions is not None:
            brighter = given.conditions[:, 0]
        images = [noise(seed, self.config.channels) for seed in given.seeds]
        return np.stack([image + np.uint8(more) for image, more in zip(images, brighter, strict=True)])

    def seen_parts(self, store: ImageStore) -> None:
        return None


PLAIN = GeneratorConfig(kind="gan", name="small", size=(SIDE, SIDE), channels=1)


def class_generator(counts: tuple[int, ...] = (30, 10, 7)) -> SmallGenerator:
    """Conditioned on the class; names say nothing of their order."""
    names = tuple(f"class {9 - i}" for i in range(len(counts)))
    return SmallGenerator(replace(PLAIN, conditioned_on="class", classes=names, class_counts=counts))


def vector_generator(labels: list[str]) -> SmallGenerator:
    """Conditioned on a vector; condition i is (10 i, 1), of the training image ``train-i``."""
    values = np.stack([[10.0 * i, 1.0] for i in range(len(labels))])
    names = np.array([f"train-{i}" for i in range(len(labels))])
    known = Conditions(values, names, np.array(labels), "prediction")
    return SmallGenerator(
        replace(PLAIN, conditioned_on="vector", condition_dim=2, conditioning="prediction"), known=known
    )
