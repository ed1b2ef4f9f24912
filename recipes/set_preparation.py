"""Does the audit of a synthetic set notice that the whole set is of another kind than the real images?

    python recipes/set_preparation.py DATA [--out docs/results/set_preparation.md]

Real images at 64 x 64 pixels, divided by patient: half are training images, a quarter is held out, and images of the
others stand for an honest synthetic set, as they are or changed as generators change images. Beside them sets that a
pass must not be given: training images, inverted, in a frame or at half the contrast, and another data set. Planted
copies are made of training images as they are stored, and none of them looks like these.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from memorisk.audits.synthetic.options import FAR_SHARE
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.report.result import Result

SIZE, MOST, N_SYNTHETIC = 64, 600, 200
FRAME = SIZE // 8
SETS = {
    "NIH chest X-rays": ("nih_cxr14_64/NIH1000", 1, {"group_from": r"^(\d+)_"}),
    "HAM10000": (
        "ham10000_224/HAM10000_metadata.csv", 3,
        {"image_column": "image_id", "label_column": "dx", "group_column": "lesion_id", "skip_missing": True},
    ),
    "eye OCT": ("eye_oct", 1, {"group_from": r"^(\d+)_"}),
}  # fmt: skip
DETECTORS = {
    "pixels": "pixels:16",
    "SqueezeNet": "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz",
}
TEXT = f"""# Is a set of another kind noticed?

`python recipes/set_preparation.py DATA`

Real images at {SIZE} x {SIZE} pixels, divided by patient: half for training, a quarter held out, {N_SYNTHETIC} images
as the synthetic set. A cell is the share of the set that lies farther from the training images than {FAR_SHARE:.0%} of
the held-out patients; where most of the set does, there is no pass. "Others" are images of people who are on neither
side: honest sets, as they are or changed by what generators do. The rest must not pass: no planted copy looks like
these.

{{table}}

Copies at half the contrast stay near their sources, among which the list and the images singled out look for them.
More noise or brightness takes some honest sets beyond the held-out ones, most of all by SqueezeNet: these are undecided
until they are prepared as the training images are.
"""


def main() -> None:
    """Audit each set by each detector."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    names = ["of the set", *(f"{name}, {by}" for name in SETS for by in DETECTORS)]
    rows: dict[str, list[str]] = {}
    read = {name: read_set(given.data, name) for name in SETS}
    for place, (name, (images, patients)) in enumerate(read.items()):
        train, held, others = parts(images, patients)
        nobody = read[list(SETS)[(place + 1) % len(SETS)]][0][:N_SYNTHETIC]
        for detector in DETECTORS.values():
            for what, made in variants(train[0], others[0], as_channels(nobody, images.shape[-1])).items():
                said = audited(train, held, made, detector.format(data=given.data))
                rows.setdefault(what, []).append(said)
                print(name, detector[:10], what, said, flush=True)
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    lines += [f"| {what} | {' | '.join(cells)} |" for what, cells in rows.items()]
    if given.out:
        given.out.write_text(TEXT.format(table="\n".join(lines)), encoding="utf-8")


def read_set(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and the patient of each."""
    where, channels, columns = SETS[name]
    root = {"image_root": data / "ham10000_224/images"} if "image_column" in columns else {}
    options = ImageOptions(size=SIZE, channels=channels, **columns, **root)  # type: ignore[arg-type]
    store = build_store(load_manifest(data / where, options), options)
    return np.asarray(store.images[:]), store.manifest.groups.astype(str)


def parts(images: np.ndarray, patients: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and patients of the training part, the held-out part and the rest."""
    people = np.random.default_rng(1).permutation(np.unique(patients))
    first, second = len(people) // 2, 3 * len(people) // 4
    of = [np.isin(patients, some) for some in (people[:first], people[first:second], people[second:])]
    return [(images[mine][:MOST], patients[mine][:MOST]) for mine in of]


def variants(train: np.ndarray, others: np.ndarray, nobody: np.ndarray) -> dict[str, np.ndarray]:
    """The sets to audit, by what they are."""
    honest, copies = others[:N_SYNTHETIC], train[:N_SYNTHETIC]
    noise = np.random.default_rng(0).normal(0, 25, honest.shape)
    return {
        "others": honest,
        "others, blurred": each(honest, lambda image: image.filter(ImageFilter.GaussianBlur(1.5))),
        "others, noised by 25 grey levels": np.clip(honest + noise, 0, 255).astype(np.uint8),
        "others, brighter by 40 grey levels": np.clip(honest.astype(int) + 40, 0, 255).astype(np.uint8),
        "copies at half the contrast": (128 + (copies.astype(int) - 128) // 2).astype(np.uint8),
        "copies, inverted": 255 - copies,
        "copies in a black frame": each(copies, framed),
        "another data set": nobody,
    }


def each(images: np.ndarray, change: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    """Every image changed, in its shape."""
    changed = [np.asarray(change(Image.fromarray(image.squeeze()))).reshape(image.shape) for image in images]
    return np.stack(changed)


def framed(image: Image.Image) -> Image.Image:
    """The image, smaller, in a black frame."""
    frame = Image.new(image.mode, image.size)
    frame.paste(image.resize((SIZE - 2 * FRAME, SIZE - 2 * FRAME)), (FRAME, FRAME))
    return frame


def as_channels(images: np.ndarray, channels: int) -> np.ndarray:
    """Images with so many channels."""
    grey = images.mean(axis=3, keepdims=True).astype(np.uint8)
    return np.repeat(grey, channels, axis=3)


def audited(
    train: tuple[np.ndarray, np.ndarray], held: tuple[np.ndarray, np.ndarray], made: np.ndarray, detector: str
) -> str:
    """Share of the set that is far, and the verdict."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (images, patients) in (("train", train), ("held", held)):
            np.savez(f"{folder}/{name}.npz", images=images, groups=patients)
        np.savez(f"{folder}/made.npz", images=made)
        result = audit_synthetic(
            f"{folder}/train.npz", f"{folder}/made.npz", held_out=f"{folder}/held.npz", out=f"{folder}/out",
            detector=(detector,), plants=20,
        )  # fmt: skip
        assert isinstance(result, Result)
        return f"{result.verdict['n_synthetic_far'] / len(made):.2f}"


if __name__ == "__main__":
    main()
