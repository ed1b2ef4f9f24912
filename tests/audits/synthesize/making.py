"""Generators that are functions: digits blended from others, and now and then a training image, hardly changed."""

from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import Draw
from memorisk.models.provenance import SeenImages
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from tests.audits.synthetic.making import blended, digits

N_TRAIN, N_NEW = 80, 79
COPYING = 0.3
OF = {
    "detector": "pixels",
    "auditor": "pca:16",
    "families": ("noise:0.1",),
    "group_from": r"([a-z]+\d+)_",
    "miss_rate": 0.05,
}
HERE = "tests.audits.synthesize.making"


def digit_parts() -> dict[str, np.ndarray]:
    """Training and new digits, and those that an honest generator blends."""
    images = digits()[np.random.default_rng(3).permutation(1797)]
    cuts = np.cumsum([N_TRAIN, N_NEW])
    return dict(zip(("train", "new", "others"), np.split(images, cuts), strict=True))


def write_folders(root: Path) -> None:
    """Folders ``train`` and ``new`` of PNG files, a patient an image."""
    for name, images in digit_parts().items():
        if name != "others":
            (root / name).mkdir()
            for row, image in enumerate(images):
                Image.fromarray(image[..., 0]).save(root / name / f"{name}{row:03d}_0.png")


def copied(seed: int) -> int:
    """The training row that the generator copies by this seed; -1 for none."""
    rng = np.random.default_rng(int(seed))
    return int(rng.integers(N_TRAIN)) if rng.random() < COPYING else -1


def copying(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Digits [n, 8, 8]; with probability `COPYING` a training image with noise."""
    parts, made = digit_parts(), []
    for seed in seeds:
        row, rng = copied(seed), np.random.default_rng([1, int(seed)])
        if row < 0:
            made.append(blended(parts["others"], 1, seed=int(rng.integers(1 << 31)))[0])
        else:
            noise = rng.integers(-4, 5, parts["train"][row].shape)
            made.append(np.clip(parts["train"][row].astype(int) + noise, 0, 255).astype(np.uint8))
    return np.array(made, dtype=np.uint8).reshape(-1, 8, 8)


def careless(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Digits by the place in a call, whatever their seeds."""
    return digit_parts()["others"][: len(seeds), ..., 0]


def only_copies(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Training images, as they are."""
    return digit_parts()["train"][np.asarray(seeds) % N_TRAIN][..., 0]


def some_identical(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """As `copying`, with training images as they are in place of noisy ones."""
    made = copying(seeds, labels)
    for place, seed in enumerate(seeds):
        if copied(seed) >= 0:
            made[place] = digit_parts()["train"][copied(seed)][..., 0]
    return made


def some_turned(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """As `some_identical`, each training image in one of its eight orientations."""
    made = some_identical(seeds, labels)
    for place, seed in enumerate(seeds):
        if copied(seed) >= 0:
            side = made[place, :, ::-1] if seed % 8 >= 4 else made[place]
            made[place] = np.rot90(side, seed % 4)
    return made


def some_far(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """As `copying`, with a picture that no digit is like in place of a noisy copy."""
    made = copying(seeds, labels)
    made[[copied(seed) >= 0 for seed in seeds]] = np.kron(np.indices((4, 4)).sum(0) % 2, np.ones((2, 2))) * 255
    return made


def classes(seeds: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """As `copying`, in colour and twice as large, of two classes: the second is darker."""
    assert labels is not None
    made = np.kron(copying(seeds, None), np.ones((2, 2), dtype=np.uint8))
    made[np.asarray(labels) == 1] //= 2
    return np.repeat(made[..., None], 3, axis=3)


classes.classes = ("bright", "dark")  # pyright: ignore[reportFunctionMemberAccess]


class Paired:
    """A generator conditioned on its training images, which it copies now and then: the very one."""

    source = "paired"

    def __init__(self, seen: tuple[str, ...] = (), missing: int = 0) -> None:
        rows = np.arange(N_TRAIN)
        names = [f"train{row:03d}_0.png" for row in rows]
        self.known = Conditions(rows[:, None] / N_TRAIN, np.array(names), np.full(N_TRAIN, ""), "ensemble")
        self.missing = frozenset(str(number) for number in range(missing))
        self.seen, self.config = seen, GeneratorConfig(
            kind="dit", name="paired", size=(8, 8), channels=1, conditioned_on="vector", condition_dim=1,
            conditioning="ensemble",
        )  # fmt: skip

    @property
    def conditions(self) -> np.ndarray:
        """[80, 1]."""
        return self.known.values

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Blends, or with probability `COPYING` the training image of the condition."""
        made = copying(draw.seeds, None)[..., None]
        assert draw.conditions is not None
        own = np.rint(draw.conditions[:, 0] * N_TRAIN).astype(int)
        for place, seed in enumerate(draw.seeds):
            if copied(seed) >= 0:
                noise = np.random.default_rng([2, int(seed)]).integers(-4, 5, (8, 8, 1))
                made[place] = np.clip(digit_parts()["train"][own[place]].astype(int) + noise, 0, 255)
        return made

    def seen_parts(self, store: ImageStore) -> SeenImages:
        """Images whose names begin as it was told."""
        known = [str(name).startswith(self.seen) for name in store.manifest.images]
        return SeenImages(np.where(known, "training", "").astype(object), True, self.missing)
