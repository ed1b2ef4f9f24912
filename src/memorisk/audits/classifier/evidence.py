"""The score table: one row per scored image and model; all that an audit concludes is concluded from it.

``scores.parquet`` has these columns (``SCHEMA``), and a table of the same columns made by any other framework is
audited by ``memorisk audit losses`` in the same way:

| column | type | meaning |
|---|---|---|
| image | text | id of the image |
| label | text | its class (multi-label: one row per finding that the image has, and one named ``(all findings)``) |
| group | text | patient, lesion, video; left out: each image is its own |
| split | text | train (seen by both twins), canary, test (seen by neither) |
| seed | integer | which twin pair |
| role | text | A or B (``paper`` design: candidate or independent) |
| member | boolean | whether that model was trained on that image |
| loss | number | cross-entropy of the true label in one unaugmented forward pass, natural logarithm |
| margin | number | log p - log(1 - p) of the true label; left out: computed from the loss |
| correct | boolean | whether the true label was predicted; left out: p > 1/2 |

A generator's loss is its error (`statistics.verdicts.scales`): its margin is minus the loss, and nothing is correct.

`Context` holds what the scores alone do not tell of an audit. `uncovered_images` and its neighbours count what the
audit says nothing of.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from memorisk.audits.classifier.attack_numbers import ALL, TargetAudit
from memorisk.audits.classifier.result import TRAINED_ELSEWHERE, LookAlikes, Placebo, Privacy, Unscored, Utility
from memorisk.audits.subgroups import Subgroups
from memorisk.images.identity import IdDoubt
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.runs.files import atomic_path
from memorisk.statistics.verdicts.reasons import Reason
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, LossScale, find_scale

REQUIRED = ("image", "label", "split", "seed", "role", "member", "loss")
SPLITS = ("train", "canary", "test")
WHOLE = "(all findings)"
"""Label of the row of a multi-label image whose loss is that of all findings, present and absent, together."""
SCORES = "scores.parquet"
"""Name of the score table in a run folder."""
ROLES = (("A", "B"), ("candidate", "independent"))
_TRUTH = {"true": True, "false": False, "1": True, "0": False}  # as text, which a Parquet file may hold


@dataclass(frozen=True)
class Items:
    """Items that are scored: an image under a label. Single-label images are one item each.

    Attributes:
        image: Ids of the images, [I].
        label: Class names, [I].
        group: Patient ids, [I].
        split: Part of each item, [I]: "train", "canary" or "test".
    """

    image: np.ndarray
    label: np.ndarray
    group: np.ndarray
    split: np.ndarray

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.image)

    @property
    def whole(self) -> np.ndarray:
        """Mask of one item per image, [I]: for multi-label images that of all findings, where the table has it."""
        together = self.label == WHOLE
        return together if together.any() else np.ones(len(self.label), dtype=bool)

    def select(self, keep: np.ndarray) -> "Items":
        """Return the evidence of some items."""
        return Items(self.image[keep], self.label[keep], self.group[keep], self.split[keep])


@dataclass(frozen=True)
class Evidence:
    """The score table as matrices: S seeds by I items, for model A and for model B.

    Attributes:
        items: Scored items.
        seeds: Seeds of the twin pairs, [S].
        design: "balanced", "matched" or "paper".
        loss_a: Loss under A (``paper``: the candidate), [S, I]: cross-entropy, of generators the error in SD.
        loss_b: Loss under B (the independent), [S, I].
        margin_a: Margin log p - log(1 - p) under A, of generators minus the loss, [S, I].
        margin_b: Margin under B, [S, I].
        correct_a: Whether A predicted the label, [S, I].
        correct_b: Whether B predicted the label, [S, I].
        member_a: Whether A was trained on the item, [S, I].
        member_b: Whether B was trained on the item, [S, I].
        assigned: Sign that the design would have given, [S, I], in a placebo; None where it is read from membership.
        scale: Name of the scale of the losses (`statistics.verdicts.scales.SCALES`).
    """

    items: Items
    seeds: np.ndarray
    design: str
    loss_a: np.ndarray
    loss_b: np.ndarray
    margin_a: np.ndarray
    margin_b: np.ndarray
    correct_a: np.ndarray
    correct_b: np.ndarray
    member_a: np.ndarray
    member_b: np.ndarray
    assigned: np.ndarray | None = None
    scale: str = CROSS_ENTROPY.name

    @property
    def sign(self) -> np.ndarray:
        """Sign of membership, [S, I]: +1 where only A was trained on the item, -1 where only B was, 0 elsewhere."""
        if self.assigned is not None:
            return self.assigned
        return self.member_a.astype(np.int8) - self.member_b.astype(np.int8)

    @property
    def gap(self) -> np.ndarray:
        """Loss under B minus loss under A, [S, I]."""
        return self.loss_b - self.loss_a

    @property
    def mirrored(self) -> "Evidence":
        """Return the same trainings with model B in the place of model A: what an attack on B is computed from."""
        exchanged = {
            f"{name}_{half}": getattr(self, f"{name}_{other}") for name in _MEASURED for half, other in ("ab", "ba")
        }
        return replace(self, assigned=None if self.assigned is None else -self.assigned, **exchanged)

    def select(self, keep: np.ndarray) -> "Evidence":
        """Return the evidence of some items."""
        cut = {n: getattr(self, n)[:, keep] for n in _MATRICES}
        assigned = None if self.assigned is None else self.assigned[:, keep]
        return replace(self, items=self.items.select(keep), assigned=assigned, **cut)

    def of_seeds(self, keep: np.ndarray) -> "Evidence":
        """Return the evidence of some seeds, by number."""
        cut = {n: getattr(self, n)[keep] for n in _MATRICES}
        assigned = None if self.assigned is None else self.assigned[keep]
        return replace(self, seeds=self.seeds[keep], assigned=assigned, **cut)


_MEASURED = ("loss", "margin", "correct", "member")
_MATRICES = tuple(f"{name}_{half}" for name in _MEASURED for half in "ab")


def write_scores(path: Path, evidence: Evidence, scale: LossScale = CROSS_ENTROPY) -> None:
    """Write ``scores.parquet``, a row group per model, so that memory holds one model's rows at a time.

    Args:
        path: Path of the file.
        evidence: Score table.
        scale: Scale of the losses; of answers the probability and whether they are right are written, too.
    """
    items = evidence.items
    names = {"image": items.image, "label": items.label, "group": items.group, "split": items.split}
    fixed = {k: pa.array(v, type=pa.string()).dictionary_encode() for k, v in names.items()}
    roles = ROLES[1] if evidence.design == "paper" else ROLES[0]
    with atomic_path(path) as temporary:
        writer = None
        for s, seed in enumerate(evidence.seeds):
            for role, half in zip(roles, "ab", strict=True):
                loss = getattr(evidence, f"loss_{half}")[s]
                n = len(items)
                columns = fixed | {
                    "seed": pa.array(np.full(n, seed, dtype=np.int64)),
                    "role": pa.array([role] * n).dictionary_encode(),
                    "member": pa.array(getattr(evidence, f"member_{half}")[s]),
                    "loss": pa.array(loss),
                    "margin": pa.array(getattr(evidence, f"margin_{half}")[s]),
                }
                if scale.of_answers:
                    columns["p_true"] = pa.array(np.exp(-loss))
                    columns["correct"] = pa.array(getattr(evidence, f"correct_{half}")[s])
                table = pa.table(columns)
                writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd")
                writer.write_table(table)
        if writer is not None:
            writer.close()


def evidence_from_table(table: pd.DataFrame, scale: LossScale = CROSS_ENTROPY) -> Evidence:
    """Check a score table and lay it out as matrices.

    Args:
        table: Score table.
        scale: Scale of the losses.

    Raises:
        InputError: A column is missing, a value is not allowed, a loss is NaN or negative, a model's rows are
            incomplete or doubled, or a test image was trained on.
    """
    table = _checked(table, scale)
    design_roles = _roles(table)
    keys = ["image", "label"]
    items_table = table.drop_duplicates(keys).sort_values(keys, kind="stable").reset_index(drop=True)
    index = _pairs(items_table)
    items = Items(*(items_table[c].to_numpy(dtype=object) for c in ("image", "label", "group", "split")))
    _refuse_without_whole(items)
    seeds = np.unique(np.asarray(table["seed"]))
    halves: dict[str, list[np.ndarray]] = {n: [] for n in _MATRICES}
    for seed in seeds:
        for role, half in zip(design_roles, "ab", strict=True):
            chosen = np.asarray(table["seed"] == seed) & np.asarray(table["role"] == role)
            rows = table.iloc[np.flatnonzero(chosen)]
            place = index.get_indexer(_pairs(rows))
            if len(rows) != len(items) or len(np.unique(place)) != len(items):
                raise InputError(
                    f"the model seed {seed}, role {role} has {len(rows)} rows for {len(items)} images: every model "
                    "needs exactly one row for every image and label"
                )
            for name in ("loss", "margin", "correct", "member"):
                column = np.empty(len(items), dtype=rows[name].to_numpy().dtype)
                column[place] = rows[name].to_numpy()
                halves[f"{name}_{half}"].append(column)
    matrices = {n: np.stack(v) for n, v in halves.items()}
    evidence = Evidence(items, seeds, _design_of(items, design_roles), **matrices, scale=scale.name)
    _check_membership(evidence)
    return evidence


def _refuse_without_whole(items: Items) -> None:
    """Refuse images without a row of all findings where others have one: attacks would leave them out.

    Raises:
        InputError: Some images have such a row and others do not.
    """
    without = sorted(set(items.image.tolist()) - set(items.image[items.whole].tolist()))
    if without:
        raise InputError(
            f"{plural(len(without), 'image has', 'images have')} no row of the label {WHOLE!r}, which others have "
            f"({listed(without, 3)}): every image needs one, or none"
        )


def _pairs(table: pd.DataFrame) -> pd.MultiIndex:
    """Return the image and label of every row."""
    return pd.MultiIndex.from_arrays([table["image"], table["label"]])


def _checked(table: pd.DataFrame, scale: LossScale) -> pd.DataFrame:
    missing = [c for c in REQUIRED if c not in table.columns]
    if missing:
        other = " For losses of a generator give --of generator." if {"level", "trivial"} & set(table.columns) else ""
        raise InputError(
            f"the score table lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it needs "
            f"{', '.join(REQUIRED)} and may have group, margin, correct (docs/losses.md).{other}".removesuffix(".")
        )
    if table.empty:
        raise InputError("the score table has no rows")
    table = table.copy()
    for name in ("image", "label", "split", "role"):
        table[name] = table[name].astype(object).where(table[name].notna(), "").astype(str)
    if "group" not in table.columns:
        table["group"] = table["image"]
    table["group"] = table["group"].astype(object).where(table["group"].notna(), table["image"]).astype(str)
    for name, allowed in (("split", SPLITS), ("role", [r for pair in ROLES for r in pair])):
        unknown = sorted(set(table[name]) - set(allowed))
        if unknown:
            raise InputError(f"column {name} holds {one_line(unknown[0], 60)!r}; allowed are {', '.join(allowed)}")
    empty = np.flatnonzero(table["label"].to_numpy(dtype=object) == "")
    if len(empty):
        name = table["image"].iloc[empty[0]]
        raise InputError(f"image {one_line(name, 60)!r} has no label: each row of the score table needs one")
    if ALL in set(table["label"]):
        raise InputError(f"column label holds {ALL!r}, the name of all classes together in the results: rename it")
    for name in ("group", "split"):
        counts = table.groupby("image", sort=False)[name].nunique()
        several = np.flatnonzero(np.asarray(counts) > 1)
        if len(several):
            image = counts.index[several[0]]
            raise InputError(f"image {one_line(image, 60)!r} has more than one {name}: it needs the same in every row")
    table["seed"] = _seeds(pd.Series(table["seed"]))
    table["member"] = _booleans(table, "member")
    loss = np.asarray(pd.to_numeric(table["loss"], errors="coerce"), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(loss) | (loss < 0))
    if len(bad):
        raise InputError(
            f"{len(bad)} losses are not finite numbers of at least 0, the first for {_place(table, bad[0])}: "
            f"{'a cross-entropy in natural logarithms' if scale.of_answers else 'an error'} is needed"
        )
    _refuse_too_large(table, "loss", loss, loss, scale)
    table["loss"] = loss
    if "margin" not in table.columns:
        table["margin"] = margin_of_loss(loss) if scale.of_answers else -loss
    margin = np.asarray(pd.to_numeric(table["margin"], errors="coerce"), dtype=np.float64)
    table["margin"] = margin
    bad = np.flatnonzero(~np.isfinite(margin))
    if len(bad):
        raise InputError(
            f"column margin holds values that are not finite numbers, the first for {_place(table, bad[0])}; leave it "
            "out to have it computed"
        )
    _refuse_too_large(table, "margin", margin, loss, scale)
    if not scale.of_answers:
        table["correct"] = False
    else:
        table["correct"] = _booleans(table, "correct") if "correct" in table.columns else loss < np.log(2)
    return table


def largest_loss(loss: np.ndarray, scale: LossScale) -> float:
    """Return the largest loss whose square 64-bit numbers can add to others without losing the others.

    Intervals are made of sums of squares. A 64-bit number above 1 / eps no longer holds a 1, so that a loss above
    1 / sqrt(eps) hides a gap of one unit of any other image. The unit is a nat for a cross-entropy; errors of
    denoising have no unit of their own, and theirs is the median error.

    Args:
        loss: Losses of the table, of one noise level, [n].
        scale: Scale of the losses.

    Example:
        >>> f"{largest_loss(np.array([0.1, 2.0]), CROSS_ENTROPY):.2g}"
        '6.7e+07'
    """
    above = loss[loss > 0]
    unit = 1.0 if scale.of_answers or not len(above) else float(np.median(above))
    return unit / math.sqrt(np.finfo(np.float64).eps)


def _refuse_too_large(table: pd.DataFrame, name: str, values: np.ndarray, loss: np.ndarray, scale: LossScale) -> None:
    """Refuse a column with a value so large that a sum of squares loses every other value."""
    limit = largest_loss(loss, scale)
    bad = np.flatnonzero(np.abs(values) > limit)
    if len(bad):
        raise InputError(
            f"{plural(len(bad), 'value', 'values')} of column {name} {'is' if len(bad) == 1 else 'are'} too large, the "
            f"first {values[bad[0]]:.3g} for {_place(table, bad[0])}: a sum of squares of 64-bit numbers with "
            f"values above {limit:.2g} loses all others; correct it, or leave out the seed of a model that diverged"
        )


def _place(table: pd.DataFrame, row: int) -> str:
    """Name the image and the model of a row of a score table."""
    values = table.iloc[row]
    level = f", level {one_line(values['level'], 40)}" if "level" in table.columns else ""
    return f"image {one_line(values['image'], 60)!r}, seed {values['seed']}, role {values['role']}{level}"


def margin_of_loss(loss: np.ndarray) -> np.ndarray:
    """Return ``log p - log(1 - p)`` with ``p = exp(-loss)``, [n]; a loss of 0 is read as the smallest float."""
    return -loss - np.log(-np.expm1(-np.maximum(loss, np.finfo(float).tiny)))


def _seeds(values: pd.Series) -> np.ndarray:
    numbers = np.asarray(pd.to_numeric(values, errors="coerce"), dtype=np.float64)
    bad = ~np.isfinite(numbers) | (numbers != np.floor(numbers)) | (np.abs(numbers) > 2**53)
    if bad.any():
        raise InputError(f"column seed holds {one_line(values.iloc[bad.argmax()], 60)!r}; it needs whole numbers")
    return np.asarray(numbers, dtype=np.int64)


def _booleans(table: pd.DataFrame, name: str) -> np.ndarray:
    values = table[name].map(lambda value: _TRUTH.get(value.lower(), value) if isinstance(value, str) else value)
    if values.dtype != bool and not set(values.unique()) <= {0, 1}:
        odd = next(v for v in values if pd.isna(v) or v not in (0, 1))
        raise InputError(f"column {name} holds {one_line(odd, 60)!r}; it needs true or false")
    return values.to_numpy(dtype=bool)


def _roles(table: pd.DataFrame) -> tuple[str, str]:
    present = set(table["role"])
    for pair in ROLES:
        if present == set(pair):
            return pair
    raise InputError(
        f"column role holds {', '.join(sorted(present))}; each seed needs two models, A and B (twins) or "
        "candidate and independent"
    )


def _design_of(items: Items, roles: tuple[str, str]) -> str:
    if roles == ROLES[1]:
        return "paper"
    return "matched" if (items.split == "train").any() else "balanced"


def _check_membership(evidence: Evidence) -> None:
    test = evidence.items.split == "test"
    if not test.any():
        raise InputError("no image has split 'test': the null is made of images that no model saw")
    if not (evidence.items.split == "canary").any():
        raise InputError("no image has split 'canary': there is nothing to score")
    members = (evidence.member_a | evidence.member_b)[:, test].any(axis=0)
    if members.any():
        name = evidence.items.image[test][members][0]
        raise InputError(f"test image {one_line(name, 60)!r} is a member of a model: test images may be seen by none")
    shared = evidence.items.split == "train"
    unseen = ~(evidence.member_a & evidence.member_b)[:, shared].all(axis=0)
    if unseen.any():
        name = one_line(evidence.items.image[shared][unseen][0], 60)
        raise InputError(
            f"image {name!r} has split 'train', which every model was trained on, and some model does not have it "
            "as a member: give it split 'canary', or correct member"
        )
    parts = pd.DataFrame({"group": evidence.items.group.astype(str), "split": evidence.items.split})
    n_parts = parts.groupby("group")["split"].nunique()
    crossing = sorted(n_parts.index[n_parts.to_numpy() > 1])
    if crossing:
        own = " and ".join(sorted(set(parts.loc[parts["group"] == crossing[0], "split"])))
        raise InputError(
            f"group {one_line(crossing[0], 60)!r} has images of split {own} ({len(crossing)} such groups): "
            "a patient's images belong on one side"
        )
    canary = evidence.items.split == "canary"
    patients, first, of = np.unique(evidence.items.group[canary].astype(str), return_index=True, return_inverse=True)
    sign = evidence.sign[:, canary]
    divided = (sign != sign[:, first[of]]).any(axis=0)
    if divided.any():
        raise InputError(
            f"group {one_line(patients[of[divided][0]], 60)!r} has images on both sides of one seed's split: a model "
            "is trained on all of a patient's images or on none, whatever their labels; correct member, or group"
        )
    if not evidence.sign.any():
        raise InputError("no canary was seen by one model of a seed and not by the other: there is nothing to compare")


def stack_evidence(
    items: Items,
    design: str,
    seeds: Sequence[int],
    halves: Iterable[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]],
    assigned: np.ndarray | None = None,
    scale: LossScale = CROSS_ENTROPY,
) -> Evidence:
    """Return evidence from per-model columns: per seed the pair of A's and B's ``loss, margin, correct, member``."""
    rows: dict[str, list[np.ndarray]] = {n: [] for n in _MATRICES}
    for pair in halves:
        for columns, half in zip(pair, "ab", strict=True):
            for name in ("loss", "margin", "correct", "member"):
                rows[f"{name}_{half}"].append(columns[name])
    matrices = {n: np.stack(v) for n, v in rows.items()}
    return Evidence(items, np.asarray(seeds), design, **matrices, assigned=assigned, scale=scale.name)


@dataclass(frozen=True, kw_only=True)
class Context:
    """Context that the scores alone do not give: how the models were made and what was left out.

    Attributes:
        design: "balanced", "matched" or "paper".
        protocol: "corrected" or "paper".
        random_split: Canaries and test images come from one random split by group.
        not_auditable: Classes too small to split.
        n_validation: Images set aside for the user's own training.
        n_images: Images of the data set; None where only scores are known.
        n_skipped: Images that could not be read and were left out.
        n_missing: Rows of the source without a file and files that are not images, all left out.
        n_not_sampled: Images that a sample left out.
        model: The network.
        n_parameters: Number of its parameters; None where memorisk did not build it.
        pixels: Height and width of the images as the network sees them, of volumes also depth; empty where they are
            not known.
        training: Settings of its training.
        data_hash: Hash of ids, labels, groups and pixels.
        dataset: Name of the data set.
        versions: Versions of the libraries.
        device: Device that the models were trained on.
        weights_kept: Whether the run folder holds the trained weights.
        pseudonymised: Whether ids are keyed hashes.
        id_doubts: Doubts about who is who.
        groups_given: Whether the data name the patient of each image; otherwise every image counts as a patient.
        n_without_group: Number of images without a patient in data that name the patients of others.
        look_alikes: Images of different patients that are nearly the same; None where only losses tell.
        notes: Sentences for the report.
        placebo: Result of the placebo.
        target: Result of the audit of the very model.
        privacy: Regime, promise and measured lower bound.
        columns: Levels of the patients by each column of ``by``.
        scale: Name of the scale of the losses (`statistics.verdicts.scales.SCALES`).
        utility: Utility of generators on unseen images; None where it is not known. That of classifiers is computed
            from the scores.
        audit: Kind of the audit, as ``verdict.json`` names it.
        other_reasons: Further reasons, which the scores do not give.
    """

    design: str
    protocol: str = "corrected"
    random_split: bool = True
    not_auditable: list[str] = field(default_factory=list)
    n_validation: int = 0
    n_images: int | None = None
    n_skipped: int = 0
    n_missing: int = 0
    n_not_sampled: int = 0
    model: str = TRAINED_ELSEWHERE
    n_parameters: int | None = None
    pixels: tuple[int, ...] = ()
    training: dict[str, Any] = field(default_factory=dict)
    data_hash: str = ""
    dataset: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    weights_kept: bool = False
    pseudonymised: bool = False
    id_doubts: Sequence[IdDoubt] = ()
    groups_given: bool = True
    n_without_group: int = 0
    look_alikes: LookAlikes | None = None
    notes: list[str] = field(default_factory=list)
    placebo: Placebo | None = None
    target: TargetAudit | None = None
    privacy: Privacy | None = None
    columns: Sequence[Subgroups] = ()
    scale: str = CROSS_ENTROPY.name
    utility: Utility | None = None
    audit: str = "classifier"
    other_reasons: Sequence[Reason] = ()

    @property
    def loss_scale(self) -> LossScale:
        """Return the scale of the losses."""
        return find_scale(self.scale)


def uncovered_images(evidence: Evidence, n_validation: int, not_auditable: list[str]) -> Unscored:
    """Count the images and patients that are not scored: training part, validation, canaries without a partner."""
    items = evidence.items
    ever = (evidence.sign != 0).any(axis=0)
    open_to_scoring = items.split != "test"
    alone = open_to_scoring & (items.split == "canary") & ~ever
    missed = open_to_scoring & ~ever
    scored_groups = set(items.group[ever])
    return Unscored(
        n_images=len(set(items.image[missed])) + n_validation,
        n_groups=len(set(items.group[missed]) - scored_groups),
        n_groups_without_partner=len(set(items.group[alone])),
        n_images_without_partner=len(set(items.image[alone])),
        not_auditable=tuple(not_auditable),
    )
