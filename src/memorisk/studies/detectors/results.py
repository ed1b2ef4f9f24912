"""What came of a benchmark, before it is laid out."""

from dataclasses import dataclass

import pandas as pd

from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.copy_detection import PoolDetection
from memorisk.statistics.proportions import clopper_pearson
from memorisk.studies.detectors.cells import DETECTORS, CellJob
from memorisk.studies.detectors.detectors import Detector
from memorisk.studies.detectors.leaderboard import Leaderboard, share
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.rare_distinctive.parts import StudyTable


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Every number of a benchmark."""

    source: str
    """Short name of the images."""
    options: BenchDetectorsOptions
    """As it was asked for."""
    detectors: list[Detector]
    """Finished ones, over their seeds."""
    board: Leaderboard
    """In order."""
    tables: list[StudyTable]
    """Tables 1 to 4 and those beside."""
    figure_1: pd.DataFrame
    """The numbers of figure 1."""
    numbers: pd.DataFrame
    """A row a cell, measure, strength, form and pool: every rate with its limits."""
    failed: dict[str, str]
    """Why cells are not there, by name."""
    patients: dict[str, int]
    """By part."""
    references: int
    """In each corrected pool."""
    n_images: int
    """Of the source."""
    left_out: int
    """Images of one grey level."""
    groups_given: bool
    """Whether the source says whose each image is."""

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed


def cell_table(jobs: list[CellJob]) -> StudyTable:
    """What was run: a row a cell, with what failed."""
    rows = []
    for job in jobs:
        row: dict[str, object] = {"detector": job.cell.name, "state": "measured" if job.done else "not run"}
        if job.done:
            told = job.described
            row |= {"dimension": told["dimension"], "weights": told["weights"], "preprocessing": told["preprocessing"]}
            row["notes"] = " ".join(told["notes"])
        elif job.failure:
            row |= {"state": "failed", "notes": job.failure}
        rows.append(row)
    note = "A cell that failed is tried again by the same command."
    return StudyTable("cells", "Cells", pd.DataFrame(), pd.DataFrame(rows), note)


def folder_table(jobs: list[CellJob]) -> StudyTable:
    """Which trained detector lies in which folder: a row a finished cell, as it is named after ``--features``."""
    trained = [job for job in jobs if job.cell.trained and job.done]
    rows = [{"detector": job.cell.name, "features": f"detector:{DETECTORS}/{job.detector.name}"} for job in trained]
    note = "Folders are told from the run folder: put its path behind detector:, and the text behind --features."
    why = "" if rows else "no detector was trained"
    return StudyTable("folders", "Trained detectors", pd.DataFrame(), pd.DataFrame(rows), note, why)


def number_table(found: list[Detector], strengths: tuple[str, ...]) -> pd.DataFrame:
    """Every rate of every cell, in both forms.

    Args:
        found: The detectors.
        strengths: Of the copies.
    """
    rows = []
    for d in found:
        for m in d.measured:
            if m.strength not in strengths:
                continue
            cell = m.job.cell
            named = {
                "model": cell.backbone.model, "pretraining": cell.backbone.pretraining, "loss": cell.loss,
                "seed": cell.seed, "measure": m.measure, "strength": m.strength,
            }  # fmt: skip
            for pool, read in m.pools.items():
                drawn = one_per_group(read.source, seed=d.seed)
                told = share("nearest", clopper_pearson(int(read.nearest_is_source[drawn].sum()), len(drawn)))
                rows.append({**named, "form": "corrected", "pool": pool} | _rates(read.found) | told)
            for pool, detection in (m.published.pools if m.published else {}).items():
                flags = m.published.new_patients[pool] if m.published else None
                told = {} if flags is None else {"new_patients": flags.estimate, "n_new_patients": flags.trials}
                rows.append({**named, "form": "published", "pool": pool} | _rates(detection) | told)
    return pd.DataFrame(rows)


def _rates(found: PoolDetection) -> dict[str, float | int | bool]:
    """One pool's rates as columns."""
    detection, row = found.detection, {}
    for name, rate in (("recognised", detection.recognised), ("right", detection.right), ("flags", found.false_flags)):
        row |= share(name, rate) | {f"n_{name}": rate.trials}
    row |= {"share": detection.share, "right_share": detection.right_share, "n_copies": detection.n_copies}
    row |= {"threshold": found.threshold.value, "threshold_kept": found.threshold.kept}
    return row | {"references": found.n_references}
