"""How often is a mark called remembered by models that never saw it? METHODS section 2, "Corrected", by simulation.

    python recipes/mark_level.py DATA [--net mlp|cnn|strided] [--models 200] [--out docs/results/mark_level.md]

Paper 002's MLP-1, memorisk's small CNN, or a CNN of two strided convolutions, each model on its own draw of 2,000
digits of the MNIST test set (DATA/mnist_t10k), none with a mark; probes are 100 grey CIFAR-10 images
(DATA/cifar10_jpg). Five fixed letters, each against 99 controls of each kind and against 20 of the other models as
references; the paper's t-test beside. Every model is audited as if it were the suspect.
"""

import argparse
import gzip
import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from memorisk.audits.feature.mark_answers import ask_about_marks
from memorisk.images.alterations.mark_controls import make_controls
from memorisk.images.alterations.marks import Mark, letter
from memorisk.models.blackbox.preprocessing import preprocessing_from
from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.scores.marks import paper_score
from memorisk.statistics.memorization.mark_rank import rank_mark, rank_p
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.options import TrainOptions

MARKS, CONTROLS, PROBES, REFERENCES, IMAGES, LEVEL = "EIAKT", 99, 100, 20, 2000, 0.05
KINDS = ("matched", "shuffled", "letters")
NETS = {"mlp": "mlp1", "cnn": "small_cnn", "strided": "two strided convolutions"}
"""Networks by the option's word; the last is none of the zoo's."""
HOW = TrainOptions(epochs=4, lr=1e-3, schedule="constant", batch_size=128, normalise="none")


class Asked:
    """A network as the audit asks it."""

    name, n_classes = "network", 10

    def __init__(self, net: nn.Module) -> None:
        self.net = net.eval()

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Softmax in float64."""
        with torch.inference_mode():
            return self.net(torch.from_numpy(x)).double().softmax(1).numpy()

    def describe(self) -> dict:
        """Nothing."""
        return {}


def network(kind: str, seed: int) -> nn.Module:
    """A network of NETS, freshly drawn."""
    if kind != "strided":
        return create_model(NETS[kind], num_classes=10, in_chans=1, image_size=28, seed=seed)
    with seeded(seed):
        layers = [nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10))


def trained(kind: str, seed: int, images: np.ndarray, labels: np.ndarray) -> nn.Module:
    """A network after four epochs of Adam on its own draw of the images."""
    rows = np.random.default_rng(seed).choice(len(images), IMAGES, replace=False)
    model = network(kind, seed)
    fit(model, images, labels, rows, HOW, seed=seed)
    return model


@cache
def controls_of(name: str, kind: str, seed: int) -> list[Mark]:
    """The controls of a letter, the same for every model."""
    return make_controls(letter(name), CONTROLS, kind=kind, seed=seed)


def measured(net: nn.Module, probes: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Log KL of each mark [5], of its controls by kind [5, C], and the paper's p [5]."""
    preprocessing = preprocessing_from("none", 28, 1)
    own, alike, welch = [], {kind: [] for kind in KINDS}, []
    for i, name in enumerate(MARKS):
        mark = letter(name)
        controls = {kind: controls_of(name, kind, i) for kind in KINDS}
        every = [control for group in controls.values() for control in group]
        found = ask_about_marks(Asked(net), preprocessing, probes, mark, every, draws=1, seed=i)
        own.append(found.statistic)
        welch.append(paper_score(found.mark, found.random[0]).p)
        at = 0
        for kind, group in controls.items():
            alike[kind].append(found.controls[at : at + len(group)])
            at += len(group)
    return np.array(own), {kind: np.array(values) for kind, values in alike.items()}, np.array(welch)


def table(own: np.ndarray, alike: dict[str, np.ndarray], welch: np.ndarray) -> list[str]:
    """Share of the models in which each form calls the mark remembered."""
    n = len(own)
    rng = np.random.default_rng(0)
    lines = []
    for j, name in enumerate(MARKS):
        shares = [np.mean([rank_p(own[s, j], alike[k][s, j]) <= LEVEL for s in range(n)]) for k in KINDS]
        centred, exact = [], []
        for s in range(n):
            others = rng.choice(np.delete(np.arange(n), s), REFERENCES, replace=False)
            controls = alike["matched"]
            found = rank_mark(own[[s], j], controls[[s], j], own[others, j], controls[others, j], level=LEVEL)
            centred.append(found.p_centred <= LEVEL)
            exact.append(found.p_references <= LEVEL)
        shares += [np.mean(centred), np.mean(exact), np.mean(welch[:, j] <= LEVEL)]
        lines.append(f"| {name} | {letter(name).ink:.0f} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
    return lines


def read(data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Digits, labels and probes."""
    folder = data / "mnist_t10k"
    raw = [gzip.decompress((folder / f"t10k-{n}-ubyte.gz").read_bytes()) for n in ("images-idx3", "labels-idx1")]
    images = np.frombuffer(raw[0], np.uint8, offset=16).reshape(-1, 28, 28)
    files = sorted((data / "cifar10_jpg" / "test").rglob("*.jpg"))
    files = [files[i] for i in np.random.default_rng(0).choice(len(files), PROBES, replace=False)]
    grey = [np.asarray(Image.open(f).convert("L").resize((28, 28), Image.Resampling.BILINEAR)) for f in files]
    return images, np.frombuffer(raw[1], np.uint8, offset=8), np.stack(grey)[..., None]


def main() -> None:
    """Train, ask, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--net", choices=NETS, default="mlp")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.models <= REFERENCES:
        sys.exit(f"at least {REFERENCES + 1} models are needed: the others are references")
    torch.set_num_threads(1)
    images, labels, probes = read(given.data)
    digits, classes = images[..., None], labels.astype(np.int64)
    found = [measured(trained(given.net, seed, digits, classes), probes) for seed in range(given.models)]
    own, welch = np.array([f[0] for f in found]), np.array([f[2] for f in found])
    alike = {kind: np.array([f[1][kind] for f in found]) for kind in KINDS}
    sd = np.sqrt(LEVEL * (1 - LEVEL) / given.models)
    text = "\n".join(
        [
            f"## {given.net.upper()} ({NETS[given.net]}), {given.models} models that never saw a mark, "
            f"nominal {LEVEL:.0%} (two s.d.: {LEVEL - 2 * sd:.1%} to {LEVEL + 2 * sd:.1%})",
            "",
            "| mark | ink | matched controls | shuffled | other letters | matched, less 20 references | "
            "against 20 references (nominal 4.8%) | paper's t-test |",
            "|---|---|---|---|---|---|---|---|",
            *table(own, alike, welch),
            "",
        ]
    )
    print(text)
    if given.out:
        with given.out.open("a") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
