"""Words of captions that lift the conditional discount of the released generator (METHODS section 7, "Text to image").

The lift of a word is what the loss of an image falls by when the word is in its caption, on the same noise:

    lift(x, w) = l(x | caption without w) - l(x | caption),

at the times of CLiD. A word that describes an image lifts it on any image. What training adds is the lift among
training patients less that among test patients, who are the null: within class, with an interval over patients, the
permutation test of `statistics.subgroups`, and Holm's correction over the words. A patient's lift is the mean over the
images that have the word. Words that too few patients have on either side, such as names and dates, are left out
together, and count as one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
import torch

from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.reasons import FEWEST_PATIENTS
from memorisk.audits.generator.target import Target, open_target
from memorisk.images.store import ImageStore
from memorisk.models.generators.noise_attacks import CLID_SHARES
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.report.numbers import to_row
from memorisk.statistics.multiple_testing.lists import holm
from memorisk.statistics.subgroups import subgroup_contrasts
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.kinds.unet_training import captions_of
from memorisk.training.generators.twins.recipes import TwinJob

RARER = "(all rarer words)"
"""Name of the words that too few patients have, left out together; no word has spaces."""
MOST_WORDS = 40
"""Most words of rows of their own, those of most patients first."""
_MARKS = ".,;:!?()\"'"
_AT_ONCE = 512
_TRAINING, _TEST = "training", "test"


@dataclass(frozen=True, kw_only=True)
class WordRow:
    """Lift of the discount by one word, or by all rarer ones."""

    word: str
    n_train_patients: int
    """Number of training patients who have the word."""
    n_test_patients: int
    mean_train: float
    """Mean lift among training patients, in noise variances."""
    mean_test: float
    difference: float
    """Lift among training patients less that among test patients, within class."""
    low: float
    high: float
    p: float
    """One-sided p that training adds nothing."""
    adjusted: float
    """The same by Holm over the words."""
    noticeable: float
    """Difference that is found with a probability of 80 %."""


@dataclass(frozen=True)
class ShorterCaption:
    """Caption of an image with a word left out.

    Attributes:
        item: Place of the image.
        word: Name of the word.
        text: The rest of the caption.
    """

    item: int
    word: str
    text: str


def caption_words(caption: str) -> list[tuple[str, str]]:
    """Split a caption at spaces into its parts and their words.

    Args:
        caption: The caption.

    Example:
        >>> caption_words("No effusion, ___ 2012.")
        [('No', 'no'), ('effusion,', 'effusion'), ('___', '___'), ('2012.', '2012')]
    """
    return [(part, part.strip(_MARKS).casefold() or part) for part in caption.split()]


def shorter_captions(captions: Sequence[str], groups: np.ndarray, test: np.ndarray) -> list[ShorterCaption]:
    """Leave each word out of each caption; words that too few patients have, all at once.

    Args:
        captions: Caption of each image, [I].
        groups: Patient of each image, [I].
        test: Whether each image is a test image, [I].
    """
    parts = [caption_words(caption) for caption in captions]
    patients: dict[str, set[tuple[bool, str]]] = {}
    for own, group, is_test in zip(parts, groups.tolist(), test.tolist(), strict=True):
        for _, word in own:
            patients.setdefault(word, set()).add((is_test, str(group)))
    sides = {word: Counter(is_test for is_test, _ in who) for word, who in patients.items()}
    frequent = [word for word, n in sides.items() if min(n[True], n[False]) >= FEWEST_PATIENTS]
    chosen = set(sorted(frequent, key=lambda word: (-len(patients[word]), word))[:MOST_WORDS])
    shorter = []
    for item, own in enumerate(parts):
        names = [word if word in chosen else RARER for _, word in own]
        for name in dict.fromkeys(names):
            rest = " ".join(part for (part, _), of in zip(own, names, strict=True) if of != name)
            shorter.append(ShorterCaption(item, name, rest))
    return shorter


def word_lifts(target: Target, captions: Sequence[str], shorter: Sequence[ShorterCaption]) -> np.ndarray:
    """Compute the lift of each word that is left out, [V]; NaN where the cut caption never had it.

    Args:
        target: Generator of captions.
        captions: Caption of each item, [I].
        shorter: Captions with a word left out.
    """
    encoder, denoiser = target.generator.captions, target.generator.denoiser
    assert encoder is not None
    times = sorted({denoiser.nearest_time(share) for share in CLID_SHARES})
    whole, cut = encoder.tokens(captions), encoder.tokens([one.text for one in shorter])
    items = torch.tensor([one.item for one in shorter], dtype=torch.int64)

    def losses(places: torch.Tensor, tokens: torch.Tensor) -> np.ndarray:
        """Compute the loss of some items with these captions, mean over times, [n]."""
        parts, blocks = [], places.split(_AT_ONCE)
        for where, x, own in zip(blocks, target.images.batches(blocks), tokens.split(_AT_ONCE), strict=True):
            ids = target.ids[where.numpy()].tolist()
            parts.append(noise_losses(denoiser, x.cpu(), ids, times, target.pairs, None, own).mean(axis=0))
        return np.concatenate(parts) if parts else np.empty(0)

    differ = (cut != whole[items]).any(dim=1)
    needed = torch.unique(items[differ])
    full = np.full(len(captions), np.nan)
    full[needed.numpy()] = losses(needed, whole[needed])
    lifts = np.full(len(shorter), np.nan)
    lifts[differ.numpy()] = losses(items[differ], cut[differ]) - full[items[differ].numpy()]
    return lifts


def word_table(
    shorter: Sequence[ShorterCaption], lifts: np.ndarray, groups: np.ndarray, labels: np.ndarray, test: np.ndarray
) -> pd.DataFrame:
    """Compare the lift of each word among training patients with that among test patients, largest difference first.

    Args:
        shorter: Captions with a word left out.
        lifts: Lift of each, [V]; NaN without one.
        groups: Patient of each image, [I].
        labels: Class of each image, [I].
        test: Whether each image is a test image, [I].
    """
    item = np.array([one.item for one in shorter], dtype=np.int64)
    table = pd.DataFrame(
        {
            "word": [one.word for one in shorter],
            "lift": lifts,
            "group": groups[item].astype(str),
            "label": labels[item].astype(str),
            "side": np.where(test[item], _TEST, _TRAINING),
        }
    )
    by_patient = table.dropna().groupby(["word", "side", "group"], sort=True)
    patients = by_patient.agg(lift=("lift", "mean"), label=("label", "first")).reset_index()
    measured = []
    for word, own in patients.groupby("word", sort=True):
        sides = [own.loc[own["side"] == side, "lift"].to_numpy() for side in (_TRAINING, _TEST)]
        if min(map(len, sides)) < FEWEST_PATIENTS:
            continue
        contrasts = subgroup_contrasts(own["lift"], own["side"], own["label"])
        (contrast,) = (one for one in contrasts if one.level == _TRAINING)
        if np.isfinite(contrast.p):
            measured.append((str(word), sides, contrast))
    adjusted = holm([contrast.p for *_, contrast in measured]) if measured else np.empty(0)
    rows = [
        WordRow(
            word=word,
            n_train_patients=len(sides[0]),
            n_test_patients=len(sides[1]),
            mean_train=float(sides[0].mean()),
            mean_test=float(sides[1].mean()),
            difference=contrast.difference.estimate,
            low=contrast.difference.low,
            high=contrast.difference.high,
            p=contrast.p,
            adjusted=float(p),
            noticeable=contrast.noticeable_among(len(measured)),
        )
        for (word, sides, contrast), p in zip(measured, adjusted, strict=True)
    ]
    rows.sort(key=lambda row: (-row.difference, row.word))
    return pd.DataFrame([to_row(row) for row in rows], columns=[field.name for field in fields(WordRow)])


def measure_words(store: ImageStore, plan: Plan, job: TwinJob, options: GeneratorAuditOptions) -> pd.DataFrame:
    """Measure the words of the captions on the released generator.

    Args:
        store: The images.
        plan: Parts and scored items.
        job: A job of the audit.
        options: Settings of the audit.

    Raises:
        InputError: The generator cannot be opened.
    """
    target = open_target(store, plan, job, options)
    captions, shorter = item_captions(store, plan, options)
    with limited_threads(job.threads):
        lifts = word_lifts(target, captions, shorter)
    return word_table(shorter, lifts, plan.items.group, plan.items.label, plan.items.split == _TEST)


def item_captions(
    store: ImageStore, plan: Plan, options: GeneratorAuditOptions
) -> tuple[list[str], list[ShorterCaption]]:
    """Return the caption of each item, [I], and those with a word left out.

    Args:
        store: The images.
        plan: Parts and scored items.
        options: Settings with ``caption_column``.
    """
    assert options.caption_column is not None
    every = captions_of(store.manifest, options.caption_column)
    captions = [every[row] for row in plan.item_row.tolist()]
    return captions, shorter_captions(captions, plan.items.group, plan.items.split == _TEST)
