"""The tables of a filter's result."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from memorisk.audits.comparison.features import display_names
from memorisk.audits.comparison.sets import part_names
from memorisk.audits.filter.screening import Matches, reaching
from memorisk.audits.filter.wording import PIXELS, SCORE, UNREADABLE
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.copies.near_copies import ORIENTATIONS
from memorisk.runs.errors import one_line

if TYPE_CHECKING:
    from memorisk.audits.filter.analysis import FilterEvidence

_ORIENTATION = np.array([*ORIENTATIONS, ""], dtype=object)  # -1, the last, is none


class FilterTables:
    """The tables of a result, each by the ids that the run may write."""

    def __init__(self, evidence: "FilterEvidence", names: Pseudonyms) -> None:
        self.e, self.key = evidence, names
        sets = evidence.sets
        self.image, self.known = names.names(sets.candidates.images), set(sets.candidates.images)
        self.train_image = names.names(sets.train.manifest.images)
        self.patient = names.names(sets.train.manifest.groups)
        self.names = list(display_names(evidence.detectors))

    def further(self) -> dict[str, pd.DataFrame]:
        """Return the tables besides those of images, patients and classes, by name."""
        tables = {"guarantees": self.guarantees(), "calibration": self.calibration()}
        if self.e.screened is not None:
            tables |= {"scores": self.scores(), "real_images": self.real_images()}
            tables |= {"detectors": self.detectors(), "diversity": self.diversity()}
        return tables

    def per_image(self) -> pd.DataFrame:
        """Return a row for each synthetic image, those that could not be read among them."""
        decision, sets = self.e.decision, self.e.sets
        n, place = len(decision.reason), decision.place
        table = pd.DataFrame(
            {
                "image": self.image,
                "label": sets.candidates.labels,
                "kept": decision.kept,
                "reason": decision.reason,
                **self._match(np.maximum(place, 0), place >= 0, n),
            }
        )
        if self.key.key is None:
            reasons = dict(zip(sets.unread["image"], sets.unread["reason"], strict=True))
            others = self._other_images(place)
            detail = [
                str(reasons.get(image, other)) for image, other in zip(sets.candidates.images, others, strict=True)
            ]
            table.insert(1, "path", sets.candidates.table["path"].to_numpy(dtype=object))
            table.insert(5, "detail", np.array(detail, dtype=object))
        more = self._without_row()
        whole = pd.concat([table, more], ignore_index=True) if len(more) else table
        return self.key.ordered(whole, "image")

    def _other_images(self, place: np.ndarray) -> list[str]:
        """Return the image in a further part of TRAIN that each image equals, by name; empty for none."""
        screened, others = self.e.screened, self.e.sets.others
        if screened is None or others is None:
            return [""] * len(place)
        equal = np.where(place >= 0, screened.identical_other[place], -1)
        names = zip(others.manifest.images, part_names(others.manifest), strict=True)
        words = [*(f"image {one_line(image)} of the part {part}" for image, part in names), ""]
        return [words[row] for row in equal]

    def _match(self, rows: np.ndarray, read: np.ndarray, n: int) -> dict[str, np.ndarray]:
        """Return the training image that is shown next to each image, with its score."""
        text, number = np.full(n, "", dtype=object), np.full(n, np.nan)
        empty = {"detector": text, "score": number, "threshold": number, "probability": number}
        empty |= {
            "nearest_image": text,
            "nearest_group": text,
            "orientation": text,
            "singled_out": np.zeros(n, dtype=bool),
        }
        screened = self.e.screened
        if screened is None:
            return empty
        which, nearest = screened.decisive[rows], screened.nearest[rows]
        every = np.array([matches.score for matches in screened.synthetic])
        score = every[which, rows]
        half = np.array([opened.similarity.at_half for opened in self.e.opened])[which]
        matched = read & (nearest >= 0)
        with np.errstate(over="ignore"):
            probability = np.where(np.isnan(half), np.nan, 1 / (1 + np.exp(-score)))
        return {
            "detector": np.where(read, np.array(self.names, dtype=object)[which], ""),
            "score": np.where(read, score, np.nan),
            "threshold": np.where(read, np.array(screened.thresholds)[which], np.nan),
            "probability": np.where(read, probability, np.nan),
            "nearest_image": np.where(matched, self.train_image[nearest], ""),
            "nearest_group": np.where(matched, self.patient[nearest], ""),
            "orientation": np.where(read, _ORIENTATION[screened.same.orientation[rows]], ""),
            "singled_out": read & screened.singled_out[rows],
        }

    def _without_row(self) -> pd.DataFrame:
        """List files and rows that are not among the images of the manifest: they could not be read either."""
        unread = self.e.sets.unread
        rows = unread.take([i for i, image in enumerate(unread["image"]) if image not in self.known])
        columns = {"image": self.key.names(rows["image"]), "label": "", "kept": False, "reason": UNREADABLE}
        if self.key.key is None:
            columns |= {"path": rows["path"].tolist(), "detail": rows["reason"].tolist()}
        return pd.DataFrame(columns | self._match(np.zeros(len(rows), np.int64), np.zeros(len(rows), bool), len(rows)))

    def per_group(self) -> pd.DataFrame:
        """Return one row per training patient that a rejected image points to, the closest pair first."""
        columns = ["group", "n_images", "n_rejected", "n_singled_out", "identical", "detector", "score", "threshold"]
        columns += ["training_image", "synthetic_image"]
        screened = self.e.screened
        if screened is None:
            return pd.DataFrame({column: pd.Series(dtype=object) for column in columns})
        place = np.flatnonzero(np.isin(screened.reason, (SCORE, PIXELS)))
        which, nearest = screened.decisive[place], screened.nearest[place]
        score = np.array([matches.score for matches in screened.synthetic])[which, place]
        threshold, identical = np.array(screened.thresholds)[which], screened.identical[place] >= 0
        image = self.key.names(self.e.sets.synthetic.manifest.images)[place]
        margin = np.nan_to_num(score - threshold, nan=-np.inf)
        order = np.lexsort((image.astype(str), -margin, ~identical))
        patients, owner = np.unique(self.patient.astype(str), return_inverse=True)
        exposed = owner[nearest]
        n_images, n_rejected = (np.bincount(index, minlength=len(patients)) for index in (owner, exposed))
        n_singled = np.bincount(exposed, weights=screened.singled_out[place], minlength=len(patients))
        first = order[np.sort(np.unique(exposed[order], return_index=True)[1])]
        group = exposed[first]
        values = [
            patients[group].astype(object),
            n_images[group],
            n_rejected[group],
            n_singled[group].astype(np.int64),
            identical[first],
            np.array(self.names, dtype=object)[which[first]],
            score[first],
            threshold[first],
            self.train_image[nearest[first]],
            image[first],
        ]
        return pd.DataFrame(dict(zip(columns, values, strict=True)))

    def per_class(self) -> pd.DataFrame:
        """Return the counts by label, before and after."""
        labels, is_kept = self.e.sets.candidates.labels, self.e.decision.kept
        classes = sorted(set(labels))
        if classes in ([""], []):
            return pd.DataFrame()
        before = np.array([(labels == label).sum() for label in classes])
        after = np.array([(labels[is_kept] == label).sum() for label in classes])
        return pd.DataFrame(
            {
                "label": classes,
                "n_before": before,
                "n_kept": after,
                "n_rejected": before - after,
                "share_before": before / before.sum(),
                "share_kept": after / max(after.sum(), 1),
                "share_rejected": (before - after) / before,
            }
        )

    def scores(self) -> pd.DataFrame:
        """Return a row for each synthetic image that could be read and a detector."""
        assert self.e.screened is not None
        return self._pairs(self.e.sets.synthetic.manifest.images, None, self.e.screened.synthetic)

    def real_images(self) -> pd.DataFrame:
        """Return a row for each calibration image and a detector."""
        assert self.e.screened is not None
        if self.e.sets.calibration is None:
            return pd.DataFrame()
        manifest = self.e.sets.calibration.manifest
        return self._pairs(manifest.images, manifest.groups, self.e.screened.real)

    def _pairs(self, images: np.ndarray, groups: np.ndarray | None, every: tuple[Matches, ...]) -> pd.DataFrame:
        assert self.e.screened is not None
        parts = []
        reaches = reaching(every, self.e.screened.thresholds)
        for name, reached, matches in zip(self.names, reaches, every, strict=True):
            matched = matches.row >= 0
            part = {"image": self.key.names(images)}
            part |= {} if groups is None else {"group": self.key.names(groups)}
            part |= {
                "detector": np.full(len(images), name, dtype=object),
                "score": matches.score,
                "nearest_image": np.where(matched, self.train_image[matches.row], ""),
                "nearest_group": np.where(matched, self.patient[matches.row], ""),
                "reaches": reached,
            }
            parts.append(pd.DataFrame(part))
        return self.key.ordered(pd.concat(parts, ignore_index=True), "detector", "image")

    def calibration(self) -> pd.DataFrame:
        """Return a row for each positive pair and a detector."""
        thresholds = None if self.e.screened is None else self.e.screened.thresholds
        parts = [
            pd.DataFrame(
                {
                    "detector": np.full(len(c.score), self.names[c.detector], dtype=object),
                    "family": np.full(len(c.score), c.family.name, dtype=object),
                    "group": self.key.names(c.group),
                    "strength": c.strength,
                    "score": c.score,
                    "missed": np.zeros(len(c.score), bool) if thresholds is None else c.score < thresholds[c.detector],
                }
            )
            for c in self.e.choice.calibrated
        ]
        if not parts:
            return pd.DataFrame()
        return self.key.ordered(pd.concat(parts, ignore_index=True), "detector", "family", "group")

    def guarantees(self) -> pd.DataFrame:
        """Return a row for each detector and a family; before scores are known, a row for each family."""
        rows = [
            {"detector": "", "family": family.name, "words": family.words, **_counts(guarantee)}
            for family, guarantee in zip(self.e.choice.families, self.e.choice.counted, strict=True)
        ]
        if not self.e.choice.calibrated:
            return pd.DataFrame(rows)
        assert self.e.screened is not None
        rows = []
        for c in self.e.choice.calibrated:
            missed = c.missed(self.e.screened.thresholds[c.detector])
            rows.append(
                {
                    "detector": self.names[c.detector],
                    "family": c.family.name,
                    "words": c.family.words,
                    **_counts(c.guarantee),
                    "threshold": c.guarantee.threshold if c.guarantee.kept else np.nan,
                    "threshold_as_given": c.readings.given.threshold if c.readings.given.kept else np.nan,
                    "threshold_as_one": c.readings.merged.threshold if c.readings.merged.kept else np.nan,
                    "missed": missed.successes,
                    "missed_share": missed.estimate,
                    "missed_low": missed.low,
                    "missed_high": missed.high,
                }
            )
        return pd.DataFrame(rows)

    def detectors(self) -> pd.DataFrame:
        """Return a row for each detector: what it rejects, and what it alone rejects."""
        screened = self.e.screened
        assert screened is not None
        reaches = screened.reaches(screened.synthetic)
        others = reaches.sum(axis=0, keepdims=True) - reaches
        real = [np.nan] * len(self.names)
        if screened.real:
            real = screened.reaches(screened.real).mean(axis=1).tolist()
        return pd.DataFrame(
            {
                "detector": self.names,
                "compares": [opened.similarity.words for opened in self.e.opened],
                "threshold": list(screened.thresholds),
                "n_rejected": reaches.sum(axis=1),
                "n_alone": (reaches & (others == 0)).sum(axis=1),
                "real_images": real,
            }
        )

    def diversity(self) -> pd.DataFrame:
        """Return a row for each detector and a set of images; at equal numbers of images below ``equal``."""
        rows = [
            {
                "detector": self.names[one.detector],
                "images": one.images,
                "n": one.score.n_synthetic,
                "distinct": one.score.n_distinct,
                "irs": one.score.estimate,
                "low": one.score.low,
                "high": one.score.high,
                "n_equal": one.equal.n_synthetic,
                "equal": one.equal.estimate,
                "equal_low": one.equal.low,
                "equal_high": one.equal.high,
            }
            for one in self.e.diversity
        ]
        return pd.DataFrame(rows)


def _counts(guarantee) -> dict[str, int]:
    """Count the identities behind a guarantee."""
    return {
        "n_identities": guarantee.n_identities,
        "needed": guarantee.needed,
        "missing": guarantee.missing,
        "misses_allowed": max(guarantee.misses_allowed, 0),
    }
