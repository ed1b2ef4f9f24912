"""Division of the patients: validation patients make thresholds, test patients are judged, others are not compared.

Paper 004, section 4; METHODS section 4. A test patient was in no detector's training and in no choice of its epoch.
Where the split is drawn, patients known to a detector are placed by what it knows of them. A given split in which a
detector knows test patients is refused.

The pairs are all positive ones of a part's patients, and one negative of the data set for each. Two images with the
same pixels are left out of the positives: every detector recognises them. Negatives are drawn twice: with a random
other patient (corrected), and with a random other image, by which patients with many images occur more often, as
the paper draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest, refuse_leaking_splits
from memorisk.images.splits import merge_linked
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs, pair_weights, positive_pairs
from memorisk.studies.pairs.detectors import BenchmarkDetector
from memorisk.studies.pairs.options import PairBenchOptions
from memorisk.training.detectors.contrastive.augmentations import blank_rows

TRAINING, VALIDATION, TEST = "training", "validation", "test"
_SPLIT_NAMES = {
    **dict.fromkeys(("val", "valid", "validation", "validate", "dev"), VALIDATION),
    "test": TEST, "train": TRAINING, "training": TRAINING,
}  # fmt: skip
_SEPARATOR = " / "


@dataclass(frozen=True, eq=False)
class Division:
    """Division of a set of images."""

    part: np.ndarray
    """Part of each image, [N]: "training", "validation" or "test"; empty for images that are left out."""
    groups: np.ndarray
    """Patient of each image, [N]: those with an identical image merged, names kept apart between data sets."""
    datasets: np.ndarray
    """Data set of each image, [N]."""
    pixels: np.ndarray
    """Code of each image's pixels, [N]: the same for identical images."""
    how: str
    """Origin of the division: "given", "drawn"."""
    notes: tuple[str, ...]
    """Notes for the report."""

    @property
    def names(self) -> list[str]:
        """Return the data sets that have test images, in the order of their names."""
        return sorted(set(self.datasets[self.part == TEST].tolist()))

    def rows(self, part: str, dataset: str | None = None) -> np.ndarray:
        """Return the rows of a part, in the order of the images."""
        chosen = self.part == part
        return np.flatnonzero(chosen if dataset is None else chosen & (self.datasets == dataset))

    def patients(self, part: str, dataset: str | None = None) -> int:
        """Count the patients of a part."""
        return len(np.unique(self.groups[self.rows(part, dataset)].astype(str)))

    def repeated(self, part: str, dataset: str) -> int:
        """Count the patients with two images or more."""
        _, count = np.unique(self.groups[self.rows(part, dataset)].astype(str), return_counts=True)
        return int((count > 1).sum())

    def table(self, manifest: Manifest) -> pd.DataFrame:
        """Return one row per image: its id, data set, patient and part."""
        columns = {
            "image": manifest.images, "dataset": self.datasets, "patient": self.groups, "part": self.part,
        }  # fmt: skip
        return pd.DataFrame(columns, dtype=object)


def divide(store: ImageStore, contenders: Sequence[BenchmarkDetector], options: PairBenchOptions) -> Division:
    """Divide the patients of a store.

    Args:
        store: Store of the images; those of one grey level are left out, since no detector can recognise them.
        contenders: Detectors of the benchmark, some of which know patients.
        options: Options of the benchmark.

    Raises:
        InputError: The given split cannot be used, a detector knows test patients of it, or a part has too few.
    """
    manifest = store.manifest
    datasets, groups = _datasets(manifest), _identities(store)
    blank = blank_rows(store.images, np.arange(manifest.n))
    notes = [f"{plural(len(blank), 'image', 'images')} of one grey level left out."] if len(blank) else []
    if not manifest.groups_given:
        notes.append("The patients of the images were not given: each image counts as a patient of its own.")
    patient_parts, notes_on_patients = _known_patients(store, groups, contenders)
    as_given = options.splits == "given" or (options.splits == "auto" and manifest.splits is not None)
    if as_given:
        part = _given_parts(manifest, groups)
        without_split = _sets_without_split(part, datasets)
        if without_split and options.splits == "auto":
            here = np.isin(datasets, without_split)
            part[here] = _draw_parts(groups, datasets, patient_parts, options)[here]
        part, more = _exclude_known(part, groups, patient_parts, options.leave_out_seen)
        notes += [*notes_on_patients, *more]
        if without_split:
            what = "drawn by patient there" if options.splits == "auto" else "none of their images is tested"
            notes.append(f"No test images are named in {', '.join(without_split)}: {what}.")
    else:
        part = _draw_parts(groups, datasets, patient_parts, options)
        notes += [*notes_on_patients, *_placement_words(groups, patient_parts)]
    part[blank] = ""
    division = Division(
        part, groups, datasets, pd.factorize(np.asarray(store.pixel_hashes, dtype=object))[0],
        "given" if as_given else "drawn", tuple(notes),
    )  # fmt: skip
    _refuse_few(division, manifest)
    return division


def _datasets(manifest: Manifest) -> np.ndarray:
    """Return the data set of each image, [N]; that of the source where the column is missing."""
    if "dataset" not in manifest.table:
        return np.full(manifest.n, manifest.name, dtype=object)
    names = [str(name) or manifest.name for name in manifest.table["dataset"].tolist()]
    return np.array(names, dtype=object)


def _identities(store: ImageStore) -> np.ndarray:
    """Return the patient of each image, [N].

    Patients of the same name in two data sets are different; patients who share an identical image are the same.
    """
    manifest, datasets = store.manifest, _datasets(store.manifest)
    groups = manifest.groups
    if len(set(datasets.tolist())) > 1:
        groups = np.array([f"{d}{_SEPARATOR}{g}" for d, g in zip(datasets, groups, strict=True)], dtype=object)
    return merge_linked(groups, linked_groups(store.pixel_hashes, groups))


def _known_patients(
    store: ImageStore, groups: np.ndarray, contenders: Sequence[BenchmarkDetector]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Look up what each trained detector knows of each image's patient, [N], and note what a reader must know of it.

    Where patients are not given, on either side, pixels alone are compared: names of files occur anywhere.
    """
    parts_known, notes = {}, []
    _, index = np.unique(groups.astype(str), return_inverse=True)
    for contender in contenders:
        detector = contender.detector.detector if contender.detector is not None else None
        if detector is None:
            continue
        parts_met = detector.seen_parts(store)
        part = parts_met.part.copy()
        if not (detector.config.groups_given and store.manifest.groups_given):
            if not parts_met.pixels_compared:
                notes.append(f"Whom {contender.name} knows cannot be seen: its images were stored otherwise, and "
                            "patients are not given.")  # fmt: skip
                continue
            hashes = store.pixel_hashes.astype(str)
            for name in (VALIDATION, TRAINING):
                mine = detector.seen.loc[detector.seen["part"] == name, "pixel_hash"].tolist()
                part[~np.isin(hashes, mine) & (part == name)] = ""
        for name in (VALIDATION, TRAINING):  # one training image makes its patient known
            of = np.bincount(index, part == name, minlength=index.max() + 1) > 0
            part[of[index]] = name
        parts_known[contender.name] = part
    return parts_known, notes


def _given_parts(manifest: Manifest, groups: np.ndarray) -> np.ndarray:
    """Return the part of each image by the given split, [N]; empty for images of none."""
    if manifest.splits is None:
        raise InputError(
            f"{one_line(manifest.name)} gives no split: name it with split_column, or leave splits out to draw one"
        )
    try:
        refuse_leaking_splits(manifest, groups)
    except InputError as error:
        raise InputError(f"{error}, or draw one by patient (splits redraw)") from None
    return np.array([_SPLIT_NAMES.get(str(name).lower(), "") for name in manifest.splits], dtype=object)


def _sets_without_split(part: np.ndarray, datasets: np.ndarray) -> list[str]:
    """Return the data sets in which the given split names no test image, where it does in others."""
    with_split = set(datasets[part == TEST].tolist())
    return sorted(set(datasets.tolist()) - with_split) if with_split else []


def _exclude_known(
    part: np.ndarray, groups: np.ndarray, known: dict[str, np.ndarray], leave_out: bool
) -> tuple[np.ndarray, list[str]]:
    """Return a given split without the test patients that a detector knows, and notes on them.

    Raises:
        InputError: Such patients exist, and the options do not leave them out.
    """
    notes, part = [], part.copy()
    for name, met in known.items():
        trained = len(np.unique(groups[(part == VALIDATION) & (met == TRAINING)].astype(str)))
        if trained:
            notes.append(f"{name} was trained on {plural(trained, 'validation patient', 'validation patients')}: its "
                         "thresholds come from patients that it knows.")  # fmt: skip
        mine = (part == TEST) & (met != "")
        n = len(np.unique(groups[mine].astype(str)))
        if not n:
            continue
        if not leave_out:
            raise InputError(
                f"{one_line(name, 80)} was trained or chosen on {plural(n, 'patient', 'patients')} of the test split: "
                "what it finds of them says nothing of new patients. leave_out_seen leaves them out for all detectors"
            )
        part[mine] = ""
        notes.append(f"{plural(n, 'test patient', 'test patients')} whom {name} knows left out.")
    return part, notes


def _draw_parts(
    groups: np.ndarray, datasets: np.ndarray, known: dict[str, np.ndarray], options: PairBenchOptions
) -> np.ndarray:
    """Return parts drawn by patient, [N]: known ones by what detectors know of them, the others at random.

    A patient in the training data of a detector belongs to training. A patient who served to choose a detector belongs
    to validation. Where a data set has no such validation patients, a share of the unknown ones is drawn, each patient
    equally likely.
    """
    part = np.full(len(groups), "", dtype=object)
    for met in known.values():
        part[met == VALIDATION] = VALIDATION
    for met in known.values():
        part[met == TRAINING] = TRAINING
    for place, dataset in enumerate(sorted(set(datasets.tolist()))):
        here = datasets == dataset
        unknown = here & (part == "")
        names = np.unique(groups[unknown].astype(str))
        chosen = np.zeros(len(names), dtype=bool)
        if not (here & (part == VALIDATION)).any():
            n = int(np.rint(options.validation_share * len(names)))
            rng = np.random.default_rng([options.split_seed, place])
            chosen[rng.permutation(len(names))[:n]] = True
        of = dict(zip(names.tolist(), np.where(chosen, VALIDATION, TEST).tolist(), strict=True))
        part[unknown] = [of[str(g)] for g in groups[unknown]]
    return part


def _placement_words(groups: np.ndarray, known: dict[str, np.ndarray]) -> list[str]:
    """Describe which patients each detector knows."""
    lines = []
    for name, met in known.items():
        counts = {p: len(np.unique(groups[met == p].astype(str))) for p in (TRAINING, VALIDATION)}
        if sum(counts.values()):
            lines.append(
                f"{name} was trained on {counts[TRAINING]:,} of these patients and chosen on {counts[VALIDATION]:,}: "
                "none of them is a test patient."
            )
    return lines


def _refuse_few(division: Division, manifest: Manifest) -> None:
    """Refuse a division without test images or without two patients to distinguish.

    Raises:
        InputError: The division is such a one.
    """
    if not division.names:
        raise InputError(
            f"{one_line(manifest.name)} has no test images: none so named in the split, or the detectors know everybody"
        )
    for name in division.names:
        for part in (TEST, VALIDATION):
            n = division.patients(part, name)
            if n == 1 or (n == 0 and part == TEST):
                raise InputError(
                    f"{one_line(name, 60)} has one {part} patient: at least two are needed to tell them apart"
                )


KINDS = ("positive", "negative", "negative_paper")


@dataclass(frozen=True, eq=False)
class PartPairs:
    """Pairs of one part of one data set, by rows of the store."""

    dataset: str
    """Name of the data set."""
    pairs: dict[str, Pairs]
    """Pairs by kind, [P] each: "positive", "negative" (a random other patient), "negative_paper" (a random other
    image)."""
    groups: np.ndarray
    """Patient of every image, [N]."""
    weight: np.ndarray
    """Weight of each pair, [P]: 1 / pairs of the patient; a negative has that of its positive."""
    identical: int
    """Number of pairs of identical images that are left out."""

    def identities(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the patients of the first and second images of a kind of pairs."""
        pairs = self.pairs[kind]
        return self.groups[pairs.first].astype(str), self.groups[pairs.second].astype(str)

    @property
    def n_identities(self) -> int:
        """Count the patients with a positive pair."""
        return len(np.unique(self.identities("positive")[0]))

    @property
    def largest_share(self) -> float:
        """Return the share of the positive pairs that the eight patients with most of them own; NaN without pairs."""
        _, count = np.unique(self.identities("positive")[0], return_counts=True)
        return float(np.sort(count)[-8:].sum() / count.sum()) if len(count) else float("nan")


def part_pairs(division: Division, part: str, datasets: Sequence[str], *, seed: int) -> list[PartPairs]:
    """Return the pairs of a part by data set.

    Args:
        division: Division of the patients.
        part: "validation" or "test".
        datasets: Names of the data sets, in the order of the result.
        seed: Random seed of the negatives.
    """
    parts = []
    for place, dataset in enumerate(datasets):
        rows = division.rows(part, dataset)
        groups = division.groups[rows].astype(str)
        every = positive_pairs(groups)
        same = division.pixels[rows[every.first]] == division.pixels[rows[every.second]]
        positive = Pairs(every.first[~same], every.second[~same])
        if not len(positive) or len(np.unique(groups)) < 2:
            continue
        draw = int(np.random.SeedSequence([seed, place, part == "test"]).generate_state(1)[0])
        local = {
            "positive": positive,
            "negative": negative_pairs(groups, positive, seed=draw),
            "negative_paper": negative_pairs(groups, positive, partner="image", seed=draw),
        }
        pairs = {kind: Pairs(rows[p.first], rows[p.second]) for kind, p in local.items()}
        weight = pair_weights(groups[positive.first])
        parts.append(PartPairs(dataset, pairs, division.groups, weight, int(same.sum())))
    return parts
