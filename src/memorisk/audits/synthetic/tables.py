"""The tables of a synthetic audit, under the ids that the run may write."""

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.comparing import Distances, PixelCopies, near
from memorisk.audits.synthetic.findings import Findings
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.sets import Sets
from memorisk.images.planting import KINDS
from memorisk.statistics.calibration import group_values


class SyntheticTables:
    """The tables of a result, each by the ids that the run may write."""

    def __init__(
        self,
        sets: Sets,
        plants: Plants,
        distances: Distances,
        copies: PixelCopies,
        found: Findings,
        names: Pseudonyms,
    ) -> None:
        self.d, self.c, self.plant, self.found, self.key = distances, copies, plants, found, names
        self.image = names.names(sets.synthetic.manifest.images)
        self.train_image, self.patient = names.names(sets.train.manifest.images), names.names(found.patients)
        self.held_image = names.names(()) if sets.held is None else names.names(sets.held.manifest.images)
        self.held_patient = names.names(found.held_patients)
        self.labels = sets.synthetic.manifest.labels
        self.train_labels = sets.train.manifest.labels

    def per_image(self) -> pd.DataFrame:
        """A row a synthetic image."""
        d, found = self.d, self.found
        exposed = set() if found.exposed is None else set(found.exposed.images.tolist())
        near_new = found.near_new
        n = len(self.image)
        ratio = np.divide(d.synthetic, d.second, out=np.ones(n), where=d.second > 0)
        table = pd.DataFrame(
            {
                "image": self.image,
                "label": self.labels,
                "exposes": [row in exposed for row in range(n)],
                "identical": (self.c.identical >= 0) & ~self.c.in_both,
                "nearest_image": self.train_image[d.nearest],
                "nearest_group": self.patient[d.nearest],
                "distance": d.synthetic,
                "second_distance": d.second,
                "second_ratio": ratio,
                "nearer_than_new": np.full(n, np.nan) if near_new is None else near_new.share,
                "p_listed": found.set_p,
                "similar_image": self.train_image[self.c.of_set.row],
                "similarity": self.c.of_set.similarity.astype(np.float64),
                "mirrored": self.c.of_set.mirrored,
            }
        )
        return self._ordered(table, "image")

    def per_group(self) -> pd.DataFrame:
        """A row a training patient."""
        unit, index, counts = np.unique(self.found.patients, return_inverse=True, return_counts=True)
        distance = group_values(self.d.train, self.found.patients)
        nearest_row = np.full(len(unit), -1)
        for row in np.argsort(-self.d.train, kind="stable"):  # the nearest image of each patient comes last
            nearest_row[index[row]] = row
        pixel = np.unique(self.found.patients[self.c.identical[(self.c.identical >= 0) & ~self.c.in_both]])
        asked = self.found.asked
        blank = np.full(len(unit), np.nan)
        table = pd.DataFrame(
            {
                "group": self.key.names(unit),
                "n_images": counts,
                "listed": np.zeros(len(unit), bool) if asked is None else asked.listed.rejected,
                "ahead": np.zeros(len(unit), bool) if asked is None else distance < self.d.held.min(),
                "identical": np.isin(unit, pixel),
                "near": np.isin(unit, self.found.patients[near(self.c.of_train)]),
                "distance": distance,
                "p_value": blank if asked is None else asked.p_value,
                "p_adjusted": blank if asked is None else asked.listed.adjusted,
                "p_smallest": blank if asked is None else asked.floor,
                "n_compared": np.zeros(len(unit), np.int64) if asked is None else asked.n_compared,
                "training_image": self.train_image[nearest_row],
                "synthetic_image": self.image[self.d.train_nearest[nearest_row]],
            }
        )
        return self._ordered(table, "group")

    def per_class(self) -> pd.DataFrame:
        """Counts by label."""
        labels = sorted(set(self.labels) | set(self.train_labels))
        exposing = np.zeros(len(self.labels), bool)
        if self.found.exposed is not None:
            exposing[self.found.exposed.images] = True
        return pd.DataFrame(
            {
                "label": labels,
                "n_training": [int((self.train_labels == label).sum()) for label in labels],
                "n_synthetic": [int((self.labels == label).sum()) for label in labels],
                "n_exposing": [int(exposing[self.labels == label].sum()) for label in labels],
            }
        )

    def held_out(self) -> pd.DataFrame:
        """A row a held-out patient: what the p-values are made of."""
        unit, counts = np.unique(self.found.held_patients, return_counts=True)
        distance = group_values(self.d.held, self.found.held_patients)
        return self._ordered(
            pd.DataFrame({"group": self.key.names(unit), "n_images": counts, "distance": distance}), "group"
        )

    def real_images(self) -> pd.DataFrame:
        """A row a real image: its distance to the set, and of the other direction what figure 3 needs."""
        n, m = len(self.train_image), len(self.held_image)
        table = pd.DataFrame(
            {
                "image": np.concatenate([self.train_image, self.held_image]),
                "group": np.concatenate([self.patient, self.held_patient]),
                "part": ["training"] * n + ["held out"] * m,
                "distance": np.concatenate([self.d.train, self.d.held]),
                "synthetic_image": self.image[np.concatenate([self.d.train_nearest, self.d.held_nearest])],
                "distance_to_training": np.concatenate([self.d.among_train, self.d.held_to_train]),
            }
        )
        return self._ordered(table, "part", "image")

    def plants(self) -> pd.DataFrame:
        """A row a planted copy."""
        power, planted = self.found.power, self.plant
        blank = np.full(planted.n, np.nan)
        pasted = planted.base >= 0
        base = np.full(planted.n, "", dtype=object)
        base[pasted] = self.image[planted.base[pasted]]
        table = pd.DataFrame(
            {
                "kind": planted.kind,
                "parameter": planted.parameter,
                "group": self.patient[planted.source],
                "image": self.train_image[planted.source],
                "pasted_into": base,
                "distance": self.d.plant_source,
                "distance_nearest": self.d.plants,
                "p_value": blank if power is None else power.p_value,
                "found": np.zeros(planted.n, bool) if power is None else power.found,
            }
        )
        return self._ordered(table, "kind", "group")

    def kinds(self) -> pd.DataFrame:
        """A row a kind of copy: how many were found."""
        rows = []
        for kind in KINDS.values():
            mine = self.plant.kind == kind.name
            share = None if self.found.power is None else self.found.power.kinds.get(kind.name)
            rows.append(
                {
                    "kind": kind.name,
                    "what": kind.description,
                    "planted": int(mine.sum()),
                    "patients": 0 if share is None else share.trials,
                    "found": 0 if share is None else share.successes,
                    "share": np.nan if share is None else share.estimate,
                    "low": np.nan if share is None else share.low,
                    "high": np.nan if share is None else share.high,
                    "median_distance": float(np.median(self.d.plant_source[mine])) if mine.any() else np.nan,
                }
            )
        return pd.DataFrame(rows)

    def exposures(self) -> pd.DataFrame:
        """A row a training image of a listed patient and the synthetic image that is nearest to it."""
        exposed = self.found.exposed
        assert exposed is not None
        return pd.DataFrame(
            {
                "group": self.key.names(exposed.unit.tolist()),
                "training_image": self.train_image[exposed.image],
                "image": self.image[exposed.synthetic],
                "distance": exposed.distance,
            }
        )

    def pairs(self) -> pd.DataFrame:
        """Synthetic images with equal or nearly equal pixels, a row a pair, training and held-out ones."""
        rows = []
        c = self.c
        for part, same, ids, groups in (
            ("training", c.identical, self.train_image, self.patient),
            ("held out", c.identical_held, self.held_image, self.held_patient),
        ):
            rows += [
                (
                    part,
                    True,
                    self.image[s],
                    ids[same[s]],
                    groups[same[s]],
                    1.0,
                    False,
                    part == "training" and bool(c.in_both[s]),
                )
                for s in np.flatnonzero(same >= 0)
            ]
        equal = set(c.identical[c.identical >= 0].tolist())
        for part, best, ids, groups, known in (
            ("training", c.of_train, self.train_image, self.patient, equal),
            ("held out", c.of_held, self.held_image, self.held_patient, set(c.identical_held.tolist())),
        ):
            rows += [
                (
                    part,
                    False,
                    self.image[best.row[r]],
                    ids[r],
                    groups[r],
                    float(best.similarity[r]),
                    bool(best.mirrored[r]),
                    False,
                )
                for r in np.flatnonzero(near(best))
                if int(r) not in known
            ]
        columns = ["part", "identical", "image", "real_image", "group", "similarity", "mirrored", "in_both"]
        table = pd.DataFrame(rows, columns=columns)
        table["identical"], table["mirrored"], table["in_both"] = (
            table[c].astype(bool) for c in ("identical", "mirrored", "in_both")
        )
        return table.sort_values(
            ["part", "identical", "similarity", "image", "real_image"],
            ascending=[False, False, False, True, True],
            kind="stable",
        ).reset_index(drop=True)

    def _ordered(self, table: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """Under pseudonyms sorted by them: the old order would tell the order of the ids."""
        if self.key.key is None:
            return table
        return table.sort_values(list(columns), kind="stable").reset_index(drop=True)
