"""The tables of a synthetic audit, under the ids that the run may write.

The tables of detectors hold the findings of each, its scores of conditioned pairs, and the spread of its logits.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from memorisk.audits.comparison.evidence import DetectorView, PairedFindings, SyntheticEvidence, probability
from memorisk.audits.comparison.plants import Plants
from memorisk.audits.comparison.second_look import SecondLook
from memorisk.audits.comparison.sets import part_names
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.findings import DetectorFindings, Findings, listing_detectors
from memorisk.audits.synthetic.flags import Clusters, singled_pairs
from memorisk.audits.synthetic.result import MATRIX, VOLUME_MATRIX
from memorisk.images.alterations.plants import ALL_KINDS
from memorisk.images.copies.near_copies import MIRRORED, NO_PAIRS, ORIENTATIONS, NearCopies
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.reversed_queries import preceding_units
from memorisk.statistics.intervals.shares import Proportion


class SyntheticTables:
    """Tables of a result, each by the ids that the run may write.

    Tables of distances have one row per detector and image; ``per_image`` has the first detector's.
    """

    def __init__(self, evidence: SyntheticEvidence, found: Findings, names: Pseudonyms) -> None:
        sets = evidence.sets
        self.views, self.c, self.plant, self.findings, self.key = (
            evidence.views,
            evidence.copies,
            evidence.plants,
            found,
            names,
        )
        self.confirmed = evidence.confirmed
        self.image = names.names(sets.synthetic.manifest.images)
        self.train_image, self.patient = names.names(sets.train.manifest.images), names.names(found.patients)
        self.held_image = names.names(()) if sets.held is None else names.names(sets.held.manifest.images)
        self.held_patient = names.names(found.held_patients)
        self.others = None if sets.others is None else sets.others.manifest
        self.labels = sets.synthetic.manifest.labels
        self.train_labels = sets.train.manifest.labels
        self.skipped = {
            what: (store.skipped, store.manifest.not_compared)
            for what, store in (("training", sets.train), ("synthetic", sets.synthetic), ("held out", sets.held))
            if store is not None
        }

    def per_image(self, clusters: Clusters) -> pd.DataFrame:
        """Return one row per synthetic image, by the first detector."""
        first = self.images_by_detector().iloc[: len(self.image)].drop(columns=["detector", "image"])
        table = pd.DataFrame(
            {
                "image": self.image,
                "label": self.labels,
                "exposes": self.findings.exposing,
                "singled_out": self.findings.singled,
                "identical": (self.c.identical >= 0) & ~self.c.in_both,
                **{name: first[name].to_numpy() for name in first},
                "similar_image": self.train_image[self.c.of_set.row],
                "similarity": self.c.of_set.similarity.astype(np.float64),
                "mirrored": self.c.of_set.laid,
                "cluster": clusters.cluster,
            }
        )
        return self.key.ordered(table, "image")

    def images_by_detector(self) -> pd.DataFrame:
        """Return one row per detector and synthetic image."""
        return self._by_detector(self._image_rows)

    def _image_rows(self, view: DetectorView, found: DetectorFindings) -> dict[str, np.ndarray]:
        d, n, near_new = view.distances, len(self.image), found.near_new
        ratio = np.full(n, np.nan)
        if not view.has_head:
            ratio = np.divide(d.synthetic, d.second, out=np.ones(n), where=d.second > 0)
        return {
            "image": self.image,
            "nearest_image": self.train_image[d.nearest],
            "nearest_group": self.patient[d.nearest],
            "second_image": self._named(self.train_image, d.second_nearest, n),
            "held_out_image": self._named(self.held_image, d.synthetic_held_nearest, n),
            "distance": d.synthetic,
            "second_distance": d.second,
            "second_ratio": ratio,
            "probability": probability(view, d.synthetic),
            "nearer_than_new": np.full(n, np.nan) if near_new is None else near_new.share,
            "p_listed": found.set_p,
        }

    @staticmethod
    def _named(names: np.ndarray, rows: np.ndarray | None, n: int) -> np.ndarray:
        """Return the names of some rows, [n]; empty where there is none."""
        if rows is None or len(rows) < n or not len(names):
            return np.full(n, "", dtype=object)
        return np.where(rows >= 0, names[rows], "")

    def per_group(self) -> pd.DataFrame:
        """Return one row per training patient, by the detector that comes nearest to listing them."""
        findings = self.findings
        unit, n_images = np.unique(findings.patients, return_counts=True)
        pixel = np.unique(findings.patients[self.c.identical[(self.c.identical >= 0) & ~self.c.in_both]])
        by = [self._patient_rows(view, one) for view, one in zip(self.views, findings.by, strict=True)]
        at = findings.leader, np.arange(len(unit))
        lists = [(view.name, one["listed"]) for view, one in zip(self.views, by, strict=True)]
        table = pd.DataFrame(
            {
                "group": self.key.names(unit),
                "n_images": n_images,
                "listed": findings.listed,
                "singled_out": np.isin(unit, findings.singled_patients),
                "listed_by": ["; ".join(name for name, listed in lists if listed[i]) for i in range(len(unit))],
                "confirmed": np.isin(unit, findings.patients[[real for _, real in self.confirmed]]),
                "ahead": by[findings.ahead_by]["ahead"],
                "identical": np.isin(unit, pixel),
                "near": np.isin(unit, findings.patients[self.c.near_train.second]),
                "detector": np.array([view.name for view in self.views], dtype=object)[findings.leader],
                **{name: np.array([one[name] for one in by])[at] for name in by[0] if name not in ("listed", "ahead")},
            }
        )
        return self.key.ordered(table, "group")

    def _patient_rows(self, view: DetectorView, found: DetectorFindings) -> dict[str, np.ndarray]:
        d, patients, queries = view.distances, self.findings.patients, found.queries
        distance = group_values(d.standing, patients)
        index = np.searchsorted(self.findings.unit, patients)
        nearest_row = np.full(len(distance), -1)
        for row in np.argsort(-d.standing, kind="stable"):  # the nearest image of each patient comes last
            nearest_row[index[row]] = row
        blank, nobody = np.full(len(distance), np.nan), np.zeros(len(distance), bool)
        return {
            "listed": nobody if queries is None else queries.listed.rejected,
            "ahead": nobody if queries is None else preceding_units(d.standing, d.held, patients, queries.counted),
            "distance": distance,
            "probability": probability(view, distance),
            "p_value": blank if queries is None else queries.p_value,
            "p_adjusted": blank if queries is None else np.minimum(queries.listed.adjusted * len(self.views), 1.0),
            "p_smallest": blank if queries is None else queries.floor,
            "n_compared": np.zeros(len(distance), np.int64) if queries is None else queries.n_compared,
            "training_image": self.train_image[nearest_row],
            "synthetic_image": self.image[d.standing_nearest[nearest_row]],
        }

    def per_class(self) -> pd.DataFrame:
        """Count images by label."""
        labels = sorted(set(self.labels) | set(self.train_labels))
        return pd.DataFrame(
            {
                "label": labels,
                "n_training": [int((self.train_labels == label).sum()) for label in labels],
                "n_synthetic": [int((self.labels == label).sum()) for label in labels],
                "n_exposing": [int(self.findings.exposing[self.labels == label].sum()) for label in labels],
            }
        )

    def held_out(self) -> pd.DataFrame:
        """Return one row per detector and held-out patient: the basis of the p-values."""
        unit, counts = np.unique(self.findings.held_patients, return_counts=True)
        names = self.key.names(unit)

        def rows(view: DetectorView, _: DetectorFindings) -> dict[str, np.ndarray]:
            """Return the rows of one detector."""
            distance = group_values(view.distances.held, self.findings.held_patients)
            return {"group": names, "n_images": counts, "distance": distance}

        return self._by_detector(rows, "group")

    def real_images(self) -> pd.DataFrame:
        """Return one row per detector and real image: its distance to the set, and what figure 3 needs."""
        n, m = len(self.train_image), len(self.held_image)
        part = np.array(["training"] * n + ["held out"] * m, dtype=object)

        def rows(view: DetectorView, _: DetectorFindings) -> dict[str, np.ndarray]:
            """Return the rows of one detector."""
            d = view.distances
            return {
                "image": np.concatenate([self.train_image, self.held_image]),
                "group": np.concatenate([self.patient, self.held_patient]),
                "part": part,
                "distance": np.concatenate([d.train, d.held]),
                "synthetic_image": self.image[np.concatenate([d.train_nearest, d.held_nearest])],
                "distance_to_training": np.concatenate(
                    [np.full(n, np.nan) if d.among_train is None else d.among_train, d.held_to_train]
                ),
            }

        return self._by_detector(rows, "part", "image")

    def plants(self) -> pd.DataFrame:
        """Return one row per detector and planted copy.

        ``found`` is by the detector, ``found_by_any`` by any detector, by pixels or by the second look.
        """
        planted = self.plant
        pasted = planted.base >= 0
        base = np.full(planted.n, "", dtype=object)
        base[pasted] = self.image[planted.base[pasted]]
        nothing = np.zeros(planted.n, bool)

        def rows(view: DetectorView, found: DetectorFindings) -> dict[str, np.ndarray]:
            """Return the rows of one detector."""
            return {
                "kind": planted.kind,
                "required": planted.required,
                "parameter": planted.parameter,
                "group": self.patient[planted.source],
                "image": self.train_image[planted.source],
                "pasted_into": base,
                "distance": view.distances.plant_source,
                "distance_nearest": view.distances.plants,
                "probability": probability(view, view.distances.plant_source),
                "p_value": found.plant_p,
                "other_distance": view.distances.plant_other,
                "identical": self.c.plants,
                "found": nothing if found.singled is None else found.singled.plants(),
                "second_look": self.findings.plants_confirmed,
                "found_by_any": self.findings.noticed,
            }

        return self._by_detector(rows, "kind", "group")

    def kinds(self, required: Sequence[str]) -> pd.DataFrame:
        """Return one row per kind of copy: the numbers noticed, in total and by each check; checks may overlap.

        Args:
            required: Kinds that a pass is about; they come first.
        """
        findings, power = self.findings, self.findings.power
        others = [kind for kind in ALL_KINDS if kind not in required]
        shares = findings.also if power is None else {**power.kinds, **findings.also}
        table = _kinds(self.plant, shares, [*required, *others])
        table["required"] = table["kind"].isin(required)
        nobody = np.zeros(self.plant.n, bool)
        ways = {
            "by_pixels": self.c.plants,
            "by_singled_out": np.any(
                [nobody, *(one.singled.plants() for one in findings.by if one.singled is not None)], axis=0
            ),
            "by_second_look": findings.plants_confirmed,
        }
        for name, noticed in ways.items():
            table[name] = [int(noticed[self.plant.kind == kind].sum()) for kind in table["kind"]]
        table["missed"] = table["patients"] - table["found"]
        table["median_distance"] = [
            float(np.median(v)) if len(v := self._plant_distances(0, kind)) else np.nan for kind in table["kind"]
        ]
        heads = [view for view in self.views if view.has_head]
        if heads:
            shares = [probability(view, view.distances.plant_source) > 0.5 for view in heads]
            above = np.any(shares, axis=0)
            table["above_half"] = [
                float(above[mine].mean()) if (mine := self.plant.kind == kind).any() else np.nan
                for kind in table["kind"]
            ]
        return table

    def kinds_by_detector(self, required: Sequence[str]) -> pd.DataFrame:
        """Return one row per detector and kind that a pass is about.

        Args:
            required: Kinds that a pass is about.
        """
        parts = [
            _kinds(self.plant, {} if one.power is None else one.power.kinds, required).assign(detector=view.name)
            for view, one in zip(self.views, self.findings.by, strict=True)
        ]
        return pd.concat(parts, ignore_index=True)

    def singled_out(self) -> pd.DataFrame:
        """Return one row per detector and pair that it singles out, the one that chance explains least first."""
        parts = []
        for view, one in zip(self.views, self.findings.by, strict=True):
            pairs = singled_pairs(view, one)
            synthetic, real = pairs["synthetic"].to_numpy(), pairs["train"].to_numpy()
            table = pd.DataFrame(
                {
                    "detector": np.array([view.name] * len(pairs), dtype=object),
                    "group": self.patient[real],
                    "training_image": self.train_image[real],
                    "image": self.image[synthetic],
                    **{name: pairs[name].to_numpy() for name in ("distance", "other_distance", "lead", "expected")},
                }
            )
            parts.append(self.key.ordered(table, "image", "training_image"))
        return pd.concat(parts, ignore_index=True)

    def exposures(self) -> pd.DataFrame:
        """Return one row per training image of a listed patient, with the nearest synthetic image, by detector."""
        parts = []
        for view, one in zip(self.views, self.findings.by, strict=True):
            assert one.exposed is not None
            parts.append(
                pd.DataFrame(
                    {
                        "detector": np.array([view.name] * len(one.exposed.image), dtype=object),
                        "group": self.key.names(one.exposed.unit.tolist()),
                        "training_image": self.train_image[one.exposed.image],
                        "image": self.image[one.exposed.synthetic],
                        "distance": one.exposed.distance,
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)

    def clusters(self, clusters: Clusters) -> pd.DataFrame:
        """Return one row per cluster: the number of images, the patients that they expose, and the first of them."""
        return pd.DataFrame(
            {
                "cluster": np.arange(1, len(clusters.images) + 1),
                "n_images": np.array([len(rows) for rows in clusters.images], dtype=np.int64),
                "n_groups": np.array([len(groups) for groups in clusters.patients], dtype=np.int64),
                "groups": np.array([_some(self.key.names(groups)) for groups in clusters.patients], dtype=object),
                "images": np.array([_some(self.image[rows]) for rows in clusters.images], dtype=object),
            }
        )

    def unread(self) -> pd.DataFrame:
        """Return one row per image that could not be read, or has no file."""
        rows = []
        for part, (undecoded, missing) in self.skipped.items():
            rows += [(part, self.key.names([i])[0], str(why)) for i, why in
                     zip(undecoded["image"], undecoded["reason"], strict=True)]  # fmt: skip
            rows += [(part, self.key.names([p])[0], str(why)) for p, why in
                     zip(missing["path"], missing["reason"], strict=True)]  # fmt: skip
        return pd.DataFrame(rows, columns=["part", "image", "reason"], dtype=object)

    def pairs(self) -> pd.DataFrame:
        """Return one row per pair of a synthetic and a real image with equal or nearly equal pixels, of either part."""
        c = self.c
        ours = self._pixel_pairs("training", c.identical, c.near_train, self.train_image, self.patient)
        theirs = self._pixel_pairs("held out", c.identical_held, c.near_held, self.held_image, self.held_patient)
        elsewhere = self._other_pairs()
        order = ["part", "identical", "similarity", "image", "real_image"]
        table = pd.concat([ours, theirs, *elsewhere], ignore_index=True)
        table = table.sort_values(order, ascending=[False, False, False, True, True], kind="stable")
        return table.reset_index(drop=True)

    def _other_pairs(self) -> list[pd.DataFrame]:
        """Return the pairs with equal pixels of each further part of TRAIN, which the column ``part`` names."""
        rows, others = self.c.identical_other, self.others
        if others is None or not (rows >= 0).any():
            return []
        ids, groups = self.key.names(others.images), self.key.names(others.groups)
        pairs = self._pixel_pairs("further part", rows, NO_PAIRS, ids, groups)
        return [pairs.assign(part=[f"further part {part}" for part in part_names(others)[rows[rows >= 0]]])]

    def _pixel_pairs(
        self, part: str, same: np.ndarray, near: NearCopies, ids: np.ndarray, groups: np.ndarray
    ) -> pd.DataFrame:
        """Return the pairs of one part: equal ones, then nearly equal ones of real images that have no equal one."""
        equal, c = np.flatnonzero(same >= 0), self.c
        rest = np.flatnonzero(~np.isin(near.second, same[equal]))
        synthetic, real = np.r_[equal, near.first[rest]], np.r_[same[equal], near.second[rest]]
        identical, training = np.arange(len(synthetic)) < len(equal), part == "training"
        turned = [ORIENTATIONS[way] for way in c.orientation[equal]]
        return pd.DataFrame(
            {
                "part": np.full(len(synthetic), part, dtype=object),
                "identical": identical,
                "image": self.image[synthetic],
                "real_image": ids[real],
                "group": groups[real],
                "similarity": np.r_[np.ones(len(equal)), near.similarity[rest].astype(np.float64)],
                "orientation": [*turned, *(MIRRORED if laid else ORIENTATIONS[0] for laid in near.laid[rest])],
                "in_both": c.in_both[synthetic] & identical & training,
            }
        )

    def alignments(self, look: SecondLook) -> pd.DataFrame:
        """Return one row per pair that was laid on one another, the most similar first.

        ``matrix_xx`` to ``matrix_y`` map a pixel (x, y) of the synthetic image to its place in the training image:
        ``x' = matrix_xx x + matrix_xy y + matrix_x`` and ``y' = matrix_yx x + matrix_yy y + matrix_y``. Volumes have
        a third coordinate z, along the slices.
        """
        pairs, alignments = look.pairs, [pair.alignment for pair in look.pairs]
        synthetic = np.array([pair.synthetic for pair in pairs], dtype=np.int64)
        real = np.array([pair.train for pair in pairs], dtype=np.int64)
        columns = VOLUME_MATRIX if look.dimensions == 3 else MATRIX
        matrix = np.array([one.matrix.ravel() for one in alignments], dtype=np.float64).reshape(-1, len(columns))
        table = pd.DataFrame(
            {
                "image": self.image[synthetic],
                "training_image": self.train_image[real],
                "group": self.patient[real],
                "confirmed": np.array([pair.confirmed for pair in pairs], dtype=bool),
                "alignment": np.array([one.words for one in alignments], dtype=object),
                "similarity": np.array([one.similarity for one in alignments], dtype=np.float64),
                "mirrored": np.array([one.mirrored for one in alignments], dtype=bool),
                "turn": np.array([one.turn for one in alignments], dtype=np.float64),
                "scale": np.array([one.scale for one in alignments], dtype=np.float64),
                "overlap": np.array([one.overlap for one in alignments], dtype=np.float64),
                "agreeing": np.array([one.agreeing for one in alignments], dtype=np.float64),
                **{name: matrix[:, at] for at, name in enumerate(columns)},
            }
        )
        return self.key.ordered(table, "image", "training_image")

    def _by_detector(
        self, rows: Callable[[DetectorView, DetectorFindings], dict[str, np.ndarray]], *order: str
    ) -> pd.DataFrame:
        """Stack the rows of every detector."""
        parts = []
        for view, one in zip(self.views, self.findings.by, strict=True):
            table = pd.DataFrame(rows(view, one))
            table.insert(0, "detector", np.array([view.name] * len(table), dtype=object))
            parts.append(self.key.ordered(table, *order) if order else table)
        return pd.concat(parts, ignore_index=True)

    def _plant_distances(self, view: int, kind: str) -> np.ndarray:
        return self.views[view].distances.plant_source[self.plant.kind == kind]


def _kinds(plants: Plants, shares: Mapping[str, Proportion], kinds: Sequence[str]) -> pd.DataFrame:
    """Return one row per kind: planted, patients, found, with an interval."""
    rows = []
    for kind in kinds:
        share = shares.get(kind)
        rows.append(
            {
                "kind": kind,
                "what": ALL_KINDS[kind].description,
                "planted": int((plants.kind == kind).sum()),
                "patients": 0 if share is None else share.trials,
                "found": 0 if share is None else share.successes,
                "share": np.nan if share is None else share.estimate,
                "low": np.nan if share is None else share.low,
                "high": np.nan if share is None else share.high,
            }
        )
    return pd.DataFrame(rows)


def _some(names: np.ndarray, most: int = 20) -> str:
    """Join names in a row, the first of many."""
    more = f", ... ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(str(name) for name in names[:most]) + more


def detector_table(evidence: SyntheticEvidence, found: Findings) -> pd.DataFrame:
    """Return one row per detector: its list, its test of the set as a whole, the copies that it finds alone.

    For a head also the patients with a pair of P > 0.5, training and held out: the latter are its false alarms.
    """
    rows, listing = [], listing_detectors([view.distances for view in evidence.views])
    for place, (view, one) in enumerate(zip(evidence.views, found.by, strict=True)):
        recall = None if one.power is None else one.power.recall
        queries = one.queries if place in listing else None
        rows.append(
            {
                "detector": view.name,
                "features": view.features.described.encoder,
                "measure": view.measure,
                "listed": np.nan if queries is None else float(queries.listed.n_rejected),
                "ahead": np.nan if queries is None else float(queries.ahead),
                "p_ahead": np.nan if queries is None else queries.p_ahead,
                "singled_out": np.nan if one.singled is None else float(one.singled.images.sum()),
                "singled_below": np.nan if one.singled is None else _distance(view, one.singled.near.cut),
                "singled_lead": np.nan if one.singled is None else one.singled.lead.cut,
                "parts_p": np.nan if one.unlike is None else one.unlike.p_value,
                "found": np.nan if recall is None else recall.estimate,
                "low": np.nan if recall is None else recall.low,
                "high": np.nan if recall is None else recall.high,
                "above_half": _above_half(view, view.distances.standing, found.patients),
                "above_half_held": _above_half(view, view.distances.held, found.held_patients),
            }
        )
    return pd.DataFrame(rows)


def _distance(view: DetectorView, closeness: float) -> float:
    """Return the distance that has this closeness; patients below it are singled out."""
    return -closeness if view.has_head else float(np.exp(-closeness))


def _above_half(view: DetectorView, distance: np.ndarray, patients: np.ndarray) -> float:
    """Return the share of patients with a synthetic image of P > 0.5; NaN without a head, or patients."""
    if not view.has_head or not len(distance):
        return np.nan
    return float((probability(view, group_values(distance, patients)) > 0.5).mean())


def paired_table(
    evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...], names: Pseudonyms
) -> pd.DataFrame:
    """Return one row per detector and pair of a synthetic image and its source: how alike they are."""
    pairing, sets = evidence.pairing, evidence.sets
    assert pairing is not None
    parts = []
    for view, scores in zip(evidence.views, paired, strict=True):
        table = pd.DataFrame(
            {
                "detector": np.array([view.name] * len(scores.score), dtype=object),
                "image": names.names(sets.synthetic.manifest.images[pairing.synthetic]),
                "training_image": names.names(sets.train.manifest.images[pairing.train]),
                "group": names.names(found.patients[pairing.train]),
                "score": scores.score,
                "probability": probability(view, -scores.score),
                "memorized": scores.memorized,
            }
        )
        parts.append(names.ordered(table, "image"))
    return pd.concat(parts, ignore_index=True)


def spread_table(evidence: SyntheticEvidence) -> pd.DataFrame:
    """Return one row per detector with a head, kind of pair and bin of the logit: the pairs in it."""
    rows = [
        (view.name, kind, float(low), float(high), int(n))
        for view in evidence.views
        if view.spread is not None
        for kind, counts in view.spread.counts.items()
        for low, high, n in zip(view.spread.edges[:-1], view.spread.edges[1:], counts, strict=True)
    ]
    return pd.DataFrame(rows, columns=["detector", "kind", "low", "high", "pairs"])
