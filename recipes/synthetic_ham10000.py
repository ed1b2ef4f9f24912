"""Two synthetic sets of HAM10000, one without copies and one with forty, audited with several detectors.

    python recipes/synthetic_ham10000.py DATA [--detector FOLDER] [--out docs/results/synthetic-ham10000.md]

Lesions are split at random into 2,000 for a generator and the rest, held out. The generator is a mixture of Gaussians
in the space of 64 principal components of the 2,000 images at 64 px: blurred images that belong to nobody. In the
second set forty of its 2,000 images are exchanged for copies of forty lesions: mirrored, noised, compressed, cropped or
turned.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import find_plant_kind
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store

SIDE, TRAIN, SYNTHETIC, COPIED, COMPONENTS, MODES = 64, 2000, 2000, 40, 64, 8
COPIES = ("flipped", "noised", "jpeg", "cropped", "rotated")
TEXT = f"""{TRAIN:,} lesions for the generator, the other 861 held out; a mixture of {MODES} Gaussians over
{COMPONENTS} principal components at {SIDE} px makes {SYNTHETIC:,} images that belong to nobody; in the second set
{COPIED} of them are exchanged for copies of {COPIED} lesions ({", ".join(COPIES)}). With these numbers no list of fewer
than 24 lesions is possible at 10 %. Plants are read as the audit reads them, at the cut of a list of 5 % of the
lesions. What a detector finds among real images does not say what it finds in a given set: against these blurred
images plain pixels find more than a network that was trained to find copies, and the plants say so beforehand."""
NETWORK = "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz"


def real_images(data: Path, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out images, one of each lesion."""
    options = ImageOptions(size=SIDE)
    images = np.asarray(build_store(load_manifest(data / "ham10000_224", options), options).images)
    order = np.random.default_rng(seed).permutation(len(images))
    return images[order[:TRAIN]], images[order[TRAIN:]]


def generated(train: np.ndarray, seed: int) -> np.ndarray:
    """Images drawn from a mixture fitted to the training images."""
    flat = train.reshape(len(train), -1).astype(np.float64)
    space = PCA(COMPONENTS, svd_solver="randomized", random_state=seed).fit(flat)
    mixture = GaussianMixture(MODES, covariance_type="full", reg_covar=1.0, random_state=seed).fit(
        space.transform(flat)
    )
    drawn, _ = mixture.sample(SYNTHETIC)
    pixels = space.inverse_transform(np.random.default_rng(seed).permutation(drawn))
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8).reshape(-1, *train.shape[1:])


def with_copies(synthetic: np.ndarray, train: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The set with some images exchanged for copies, and the rows of the copied training images."""
    rng = np.random.default_rng([seed, 1])
    places, sources = (rng.choice(n, COPIED, replace=False) for n in (len(synthetic), len(train)))
    made = synthetic.copy()
    for i, (place, source) in enumerate(zip(places, sources, strict=True)):
        copy = plant_copy(find_plant_kind(COPIES[i % len(COPIES)]), train[source], synthetic[place], rng)
        assert copy is not None
        made[place] = copy.pixels
    return made, sources


def audited(folder: Path, name: str, features: str, copied: np.ndarray) -> tuple[dict[str, Any], dict[str, str]]:
    """One audit, as a row of the table, and the shares of plants found by kind."""
    result = audit_synthetic(
        str(folder / "train.npy"), str(folder / f"{name}.npy"), held_out=str(folder / "held.npy"),
        out=folder / f"{name}-{features.split(':')[0][:9]}", features=features, store=folder / "store",
    )  # fmt: skip
    verdict = result.verdict
    listed = set(result.per_group.loc[result.per_group["listed"], "group"].astype(int))
    recall = verdict["recall"]
    row = {
        "set": name,
        "verdict": verdict["status"],
        "listed": len(listed),
        f"of the {COPIED} copied": len(listed & set(copied.tolist())),
        "nearer than all held out (p)": f"{verdict['n_ahead']} ({verdict['p_ahead']:.2g})",
        "plants found at a list's cut": share(recall),
    }
    return row, {kind: share(found) for kind, found in verdict["recall_by_kind"].items()}


def share(found: dict[str, Any]) -> str:
    """A share with its interval."""
    return f"{found['estimate']:.0%} ({found['low']:.0%} to {found['high']:.0%})"


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as Markdown."""
    lines = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    return [*lines, *(f"| {' | '.join(str(value) for value in row.values())} |" for row in rows)]


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--detector", type=Path, help="folder of a detector that saw none of these images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    detectors = {"pixels, 32 x 32": "pixels:32", "SqueezeNet, ImageNet": NETWORK.format(data=given.data)}
    if given.detector:
        detectors["trained detector"] = f"detector:{given.detector}"
    train, held = real_images(given.data, given.seed)
    plain = generated(train, given.seed)
    copied, sources = with_copies(plain, train, given.seed)
    rows, kinds, none = [], [], np.empty(0, dtype=int)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, images in (("train", train), ("held", held), ("nobody copied", plain), ("40 copied", copied)):
            np.save(folder / f"{what}.npy", images)
        for label, features in detectors.items():
            for what, true in (("nobody copied", none), ("40 copied", sources)):
                row, by_kind = audited(folder, what, features, true)
                rows.append({"detector": label} | row)
            kinds.append({"detector": label} | by_kind)
    named = f" --detector {given.detector.name}" if given.detector else ""
    page = [
        "# Two synthetic sets of HAM10000",
        "",
        f"`python recipes/synthetic_ham10000.py DATA{named} --seed {given.seed}`. {TEXT}",
        "",
        *table(rows),
        "",
        "Planted copies found at that cut, by kind (20 of each):",
        "",
        *table(kinds),
        "",
    ]
    print("\n".join(page))
    if given.out:
        given.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
