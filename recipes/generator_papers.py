"""Attacks of four papers on small generators: what a split of images shows, and what a split of patients shows.

    python recipes/generator_papers.py DATA [--patients 200] [--seeds 8] [--steps 1500] [--splits 1000]
        [--out docs/results/generator_papers.md]

DATA is a folder of chest X-rays, PATIENT_NUMBER.png (NIH1000 of `nih_cxr14_64`). Each seed halves the images of the
audited patients at random, and halves these patients at random, and trains a `tiny` generator on each half. Every
generator is attacked with the half that it saw as members and the other half as non-members, by the attacks of
Matsumoto 2023 (loss at one time), Carlini 2023 (LiRA), Duan 2023 (SecMI) and Kong 2024 (PIA, PIAN). A generator
that is trained on other patients is attacked with the same halves. It also serves to repeat the splits without any
training. Five more trainings see some images 16 and 64 times.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from scipy.special import ndtri

from generator_trap import by_patient, written
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.noise_attacks import NOISE_ATTACKS
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.perceptron import new_perceptron, perceptron_denoiser
from memorisk.scores.lira import lira_scores, twin_references
from memorisk.statistics.intervals.means import Interval, two_way_interval
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.roc import auc_jackknife, seed_auc_jackknife, tpr_at_fpr
from memorisk.training.generators.batches import view_images
from memorisk.training.generators.kinds.perceptron_training import PerceptronLoop, perceptron_plan

SIDE, BATCH = 16, 32
"""Side of the images in pixels, and number of images per step."""
TIMES, CARLINI_TIME, CARLINI_PAIRS = (50, 100, 200, 400), 100, 8
"""Times of the loss of Matsumoto 2023; time and number of pairs of noise of the loss under LiRA."""
ATTACKS = {
    **{f"loss {t}": f"Matsumoto 2023: loss at time {t}" for t in TIMES},
    "lira": "Carlini 2023: LiRA on the loss at time 100",
    "secmi": "Duan 2023: SecMI",
    "pia": "Kong 2024: PIA",
    "pian": "Kong 2024: PIAN",
}
MEASURES = {
    ("images", "images"): "images halved, images as units",
    ("patients", "images"): "patients halved, images as units",
    ("patients", "patients"): "patients halved, patients as units",
}
"""Split and unit of each measurement, the papers' first."""
FPR = 0.1
"""False-positive rate of the rates of members."""
DOSES, PER_DOSE, DOSED_SEEDS = (16, 64), 5, 5
"""Numbers of times that an image is in the training, number of such images, and number of trainings with them."""
SIZES = {"1 image": (1, 1), "2 to 5 images": (2, 5), "6 images or more": (6, 1000)}
Scores = dict[str, np.ndarray]
INTRODUCTION = """# What do the attacks of four papers show by a split of images, and by one of patients?

Output of `recipes/generator_papers.py --patients {n_patients} --seeds {seeds} --steps {steps}` on chest X-rays (NIH,
{side} px): {n_images} images of {n_patients} patients, {several} of whom have several images, one of them {most}.
Halves are drawn at random, one as members and one as non-members:

- Images halved, images as units: the split of the papers. Most patients with several images are on both sides.
- Patients halved, patients as units: the split of memorisk. The score of a patient is the mean over the images.
- Patients halved, images as units: what an interval over images says of such a split.

## {splits} splits, attacked on a generator that saw neither half

A `tiny` generator is trained on {n_other_images} images of {n_others} other patients and attacked with {splits} splits.
Whatever its AUC differs from 0.5 by is chance. The columns show how many of the 95 % intervals hold 0.5, how many lie
wholly above it (2.5 % would be right), and the standard deviation of the AUC.

{repeats}
"""
NOT_TRAINED = """
Generators trained on the halves themselves were not measured for this page (`--seeds 8` trains and attacks them), so
that it says nothing of how much more or less an attack finds by either split. LiRA needs such generators.
"""
TRAINED = """
## Attacks on {generators} generators of each split

Each of {seeds} seeds trains two `tiny` generators on the halves of a split of the images, and two on those of a split
of the patients. Mean AUC over generators, with an interval over units and trainings. Both generators of a seed are
attacked, so that each unit is once a member and once none, and how hard it is cancels; one generator alone says less
(below). Scores are as published and higher for members: with an AUC below 0.5 the attack points the other way on these
generators. LiRA is online, its references are the generators of the other seeds.

{aucs}

The rate at 1 % false positives, which Carlini 2023 reports, is {low_rate}.

## The same halves, attacked on the generator that saw neither

{controls}

## What the interval of one generator claims

Standard deviation of the AUC over the {generators} generators, each with a training and a half of its own; standard
deviation that the 95 % interval of one generator claims (median); and how many of the {generators} intervals hold the
mean AUC.

{spreads}

## What other images of a patient do

By how many per cent of the loss (time 100) it is below that of generators that saw no image of the patient: mean over
patients, with an interval over patients and trainings. By a split of images an attack compares the last two columns, by
a split of patients the first of the three with zero.

{patients}

## Images that are in the training several times

Halves of the patients as above in {dosed} trainings; {per_dose} images of the first half are in the training 16 times
and {per_dose} others 64 times. AUC of the images of a row against all images of the other half, with an interval over
patients and trainings; LiRA is offline. [Whether such images are drawn](generator_extraction.md) is measured elsewhere.

{doses}
"""


@dataclass(frozen=True)
class Images:
    """Images with their patients.

    Attributes:
        store: The images.
        names: Names of the images, which give their noise.
        patient: Number of the patient of each image, [N].
        audited: Rows of the images of audited patients.
    """

    store: ImageStore
    names: list[str]
    patient: np.ndarray
    audited: np.ndarray

    def halves(self, split: str, rng: np.random.Generator) -> np.ndarray:
        """Draw a half of the audited images, or of the audited patients: whether each audited image is in it."""
        units = self.audited if split == "images" else np.unique(self.patient[self.audited])
        half = rng.permutation(units)[: len(units) // 2]
        return np.isin(self.audited if split == "images" else self.patient[self.audited], half)

    def units(self, score: np.ndarray, role: np.ndarray, unit: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scores and roles, [T, U], and groups, [U], of images, or of patients by the means of their images."""
        if unit == "images":
            return score, role, np.arange(score.shape[1])
        names, index, count = np.unique(self.patient[self.audited], return_inverse=True, return_counts=True)
        mean, share = (np.stack([np.bincount(index, row) / count for row in rows]) for rows in (score, role))
        return mean, share.astype(np.int8), names


def main() -> None:
    """Train, attack and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--patients", type=int, default=200, help="number of patients whose images are halved")
    parser.add_argument(
        "--seeds",
        type=int,
        default=8,
        help="number of splits of each kind by which generators are trained; 3 at least, or 0",
    )
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        images = read(chosen.data, chosen.patients, Path(folder))
        others = np.setdiff1d(np.arange(len(images.names)), images.audited)
        control = scored(trained(images, others, 0, chosen.steps), images)
        text = page(images, control, chosen)
    print(text)
    if chosen.out:
        chosen.out.write_text(text, encoding="utf-8")


def read(data: Path, n_audited: int, folder: Path) -> Images:
    """Read the images, and choose so many patients who are audited."""
    options = GeneratorAuditOptions(size=SIDE, channels=1)
    table = written(folder / "images.csv", {"train": by_patient(data, r"(\d{8})_\d+\.png")})
    store = build_store(load_manifest(str(table), options), options)
    names, patient = np.unique(store.manifest.groups, return_inverse=True)
    audited = np.random.default_rng(0).permutation(len(names))[:n_audited]
    files = [Path(image).name for image in store.manifest.images]
    return Images(store, files, patient, np.flatnonzero(np.isin(patient, audited)))


def trained(images: Images, rows: np.ndarray, seed: int, steps: int) -> Denoiser:
    """Train a network of kind `tiny` on some rows, which may repeat, at the learning rate of `audit generator`."""
    network, cpu, lr = new_perceptron(SIDE**2, seed), torch.device("cpu"), GeneratorAuditOptions().learning_rate
    view = view_images(images.store, "pixels", flip=False, device=cpu)
    plan = perceptron_plan(seed, len(rows), BATCH, len(rows))
    loop = PerceptronLoop(network, view.shown(rows, cpu), plan, steps=steps, lr=lr, flip=False)
    for _ in loop.until(steps):
        pass
    return perceptron_denoiser(network)


def scored(denoiser: Denoiser, images: Images) -> Scores:
    """Score the audited images, [N] each; `phi` is what LiRA compares between generators."""
    view = view_images(images.store, "pixels", flip=False, device=torch.device("cpu"))
    x = next(view.shown(images.audited, torch.device("cpu")).batches([torch.arange(len(images.audited))]))
    ids = [images.names[row] for row in images.audited]
    one_pair = noise_losses(denoiser, x, ids, TIMES, pairs=1)
    scores = {f"loss {t}": -loss for t, loss in zip(TIMES, one_pair, strict=True)}
    scores["phi"] = -noise_losses(denoiser, x, ids, [CARLINI_TIME], pairs=CARLINI_PAIRS)[0]
    return scores | {name: NOISE_ATTACKS[name].function(denoiser, x, ids) for name in ("secmi", "pia", "pian")}


@dataclass(frozen=True)
class Run:
    """Scores of all generators under one split.

    Attributes:
        half: Whether each audited image is in the first half of each seed, [S, N].
        own: Scores by the generators of both halves, [S, 2, N] each.
        control: Scores by a generator that saw neither half, [N] each.
    """

    half: np.ndarray
    own: Scores
    control: Scores

    def lira(self, phi: np.ndarray, seed: int, *, mode: str = "online") -> np.ndarray:
        """Compute LiRA of a generator with the twins of the other seeds as references, [N]."""
        sign = np.where(self.half, 1, -1)
        references = twin_references(self.own["phi"][:, 0], self.own["phi"][:, 1], sign, seed)
        # With the default of eight seeds these are the 16 models that online LiRA needs; a trial may have fewer.
        return lira_scores(phi, references.refs_in, references.refs_out, mode=mode, allow_small=True)

    def targets(self, name: str, *, control: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scores and roles of each attacked generator, [T, N], and its seed, [T]."""
        seeds, of = np.arange(len(self.half)), "phi" if name == "lira" else name
        if control:
            score, role, seed = np.tile(self.control[of], (len(seeds), 1)), self.half, seeds
        else:
            score, seed = self.own[of].reshape(2 * len(seeds), -1), np.repeat(seeds, 2)
            role = np.stack([self.half, ~self.half], axis=1).reshape(score.shape)
        if name == "lira":
            score = np.stack([self.lira(phi, s) for phi, s in zip(score, seed.tolist(), strict=True)])
        return score, role.astype(np.int8), seed


def attacked(images: Images, control: Scores, seeds: int, steps: int) -> dict[str, Run]:
    """Train the generators of both splits, and score the audited images by each."""
    runs = {}
    for number, split in enumerate(("images", "patients")):
        half = np.stack([images.halves(split, np.random.default_rng([number, seed])) for seed in range(seeds)])
        sides = [(images.audited[side], seed) for seed, first in enumerate(half) for side in (first, ~first)]
        own = joined([scored(trained(images, *side, steps), images) for side in sides])
        runs[split] = Run(half, {name: values.reshape(seeds, 2, -1) for name, values in own.items()}, control)
    return runs


def joined(parts: list[Scores]) -> Scores:
    """Stack the scores of several generators, [T, N] each."""
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


def repeated(images: Images, run: Run, steps: int) -> list[list[str]]:
    """Train on halves of the patients with repeated images; return a row of cells for each number of times."""
    patient, n_seeds = images.patient[images.audited], min(DOSED_SEEDS, len(run.half))
    dose, phi = run.half[:n_seeds].astype(int), []
    for seed, half in enumerate(run.half[:n_seeds]):
        firsts = np.unique(np.where(half, patient, -1), return_index=True)[1]  # one image of each patient
        firsts = np.random.default_rng([2, seed]).permutation(firsts[half[firsts]])
        for place, times in enumerate(DOSES):
            dose[seed, firsts[place * PER_DOSE : (place + 1) * PER_DOSE]] = times
        phi.append(scored(trained(images, np.repeat(images.audited, dose[seed]), seed, steps), images)["phi"])
    scores = np.stack(phi), np.stack([run.lira(of_seed, seed, mode="offline") for seed, of_seed in enumerate(phi)])
    rows = []
    for times in (1, *DOSES):
        role = np.where(dose == times, 1, np.where(dose == 0, 0, -1))
        aucs = [limits(seed_auc_jackknife(score, role, patient)) for score in scores]
        rows.append([str(times), f"{np.sum(dose == times):,}", *aucs])
    return rows


def limits(interval: Interval | JackknifeInterval, digits: int = 2) -> str:
    """Write an estimate with its limits."""
    return f"{interval.estimate:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def single(score: np.ndarray, role: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the AUC of each generator for itself and its limits, [3, T]."""
    sides = [(s[r == 1], group[r == 1], s[r == 0], group[r == 0]) for s, r in zip(score, role, strict=True)]
    intervals = [auc_jackknife(*side) for side in sides]
    return np.array([(interval.estimate, interval.low, interval.high) for interval in intervals]).T


def table(head: list[str], rows: list[list[str]]) -> str:
    """Write a table of Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def table_of_aucs(images: Images, runs: dict[str, Run], *, control: bool = False) -> str:
    """Compare the attacks by split and unit: mean AUC over generators, and the rate of members where measurable."""
    rows = []
    for name, title in ATTACKS.items():
        aucs, rates = [], []
        for split, unit in MEASURES:
            score, role, seed = runs[split].targets(name, control=control)
            score, role, group = images.units(score, role, unit)
            aucs.append(limits(seed_auc_jackknife(score, role, group, seed=seed)))
            rate = tpr_at_fpr(score, role, group, FPR, seed=seed)
            rates.append(rate.note or f"{rate.tpr:.2f} [{rate.low:.2f}, {rate.high:.2f}]")
        rows.append([title, *aucs, *([] if control else rates[::2])])
    rate = f"members at {FPR:.0%} false positives, "
    return table(["AUC [95 %]", *MEASURES.values(), *([] if control else [rate + "images", rate + "patients"])], rows)


def table_of_spreads(images: Images, runs: dict[str, Run]) -> str:
    """Compare the interval of one generator with the spread of the AUC over generators."""
    rows = []
    for name, title in ATTACKS.items():
        cells = []
        for split, unit in MEASURES:
            auc, low, high = single(*images.units(*runs[split].targets(name)[:2], unit))
            claimed, mean = np.median(high - low) / (2 * ndtri(0.975)), auc.mean()
            cells.append(f"{auc.std(ddof=1):.3f}; {claimed:.3f}; {np.sum((low <= mean) & (mean <= high))}")
        rows.append([title, *cells])
    return table(["SD of generators; of the interval; intervals that hold the mean", *MEASURES.values()], rows)


def table_of_splits(images: Images, control: Scores, n_splits: int) -> str:
    """Split again and again, and attack the control: every AUC other than 0.5 is chance."""
    rows = []
    for name in (name for name in ATTACKS if name != "lira"):  # its references are trained on one split alone
        score, cells = np.tile(control[name], (n_splits, 1)), []
        for split, unit in MEASURES:
            halves = [images.halves(split, np.random.default_rng([3, number])) for number in range(n_splits)]
            auc, low, high = single(*images.units(score, np.array(halves, dtype=np.int8), unit))
            hold, above = np.mean((low <= 0.5) & (high >= 0.5)), np.mean(low > 0.5)
            cells.append(f"{hold:.1%}; {above:.1%}; {auc.std():.3f}")
        rows.append([ATTACKS[name], *cells])
    return table(["hold 0.5; lie above; SD of the AUC", *MEASURES.values()], rows)


def table_of_patients(images: Images, runs: dict[str, Run]) -> str:
    """Measure by how much images of a patient in the training lower the loss of that patient's images."""
    patient, loss, rows = images.patient[images.audited], {}, []
    for split, run in runs.items():
        for seen in (True, False):
            phi = run.own["phi"]
            loss[split, seen] = -np.where(run.half == seen, phi[:, 0], phi[:, 1])  # [S, N]
    unseen = loss["patients", False]
    drops = [
        100 * (unseen - loss[of]) / unseen.mean() for of in (("patients", True), ("images", True), ("images", False))
    ]
    count = np.bincount(patient)[patient]
    for name, (least, most) in SIZES.items():
        of = (count >= least) & (count <= most)
        _, index, own = np.unique(patient[of], return_inverse=True, return_counts=True)
        means = [np.stack([np.bincount(index, row[of]) / own for row in drop], axis=1) for drop in drops]
        rows.append([name, str(len(own)), *(limits(two_way_interval(mean), 1) for mean in means)])
    head = ["images of the patient", "patients", "image and all others", "image and half of the others"]
    return table([*head, "half of the others alone"], rows)


def page(images: Images, control: Scores, chosen: argparse.Namespace) -> str:
    """Train the generators of both splits, and write the page."""
    count, n_all = np.bincount(images.patient[images.audited]), len(np.unique(images.patient))
    text = INTRODUCTION.format(
        n_patients=chosen.patients, seeds=chosen.seeds, steps=chosen.steps, side=SIDE, n_images=count.sum(),
        several=(count > 1).sum(), most=count.max(), n_other_images=len(images.patient) - count.sum(),
        n_others=n_all - chosen.patients, splits=f"{chosen.splits:,}",
        repeats=table_of_splits(images, control, chosen.splits),
    )  # fmt: skip
    if not chosen.seeds:
        return text + NOT_TRAINED
    runs = attacked(images, control, chosen.seeds, chosen.steps)
    score, role, _ = runs["images"].targets("secmi")
    heads = ["times in the training", "images", "AUC of the loss at time 100", "AUC of LiRA"]
    return text + TRAINED.format(
        seeds=chosen.seeds,
        generators=2 * chosen.seeds,
        aucs=table_of_aucs(images, runs),
        low_rate=tpr_at_fpr(score, role, np.arange(score.shape[1]), 0.01).note,
        controls=table_of_aucs(images, runs, control=True),
        spreads=table_of_spreads(images, runs),
        patients=table_of_patients(images, runs),
        doses=table(heads, repeated(images, runs["patients"], chosen.steps)),
        per_dose=PER_DOSE,
        dosed=min(DOSED_SEEDS, chosen.seeds),
    )


if __name__ == "__main__":
    main()
