"""Every image ever drawn: its number, attempt and seed, the scores that were taken of it, and whether it was kept.

Written a block at a time while the loop runs, in numbers alone (rows of the training images, no ids), and put together
at the end as what a filter says of a set (`audits.filter.screening`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.filter.screening import Matches, Screened
from memorisk.images.copies.orientations import SamePixels
from memorisk.runs.files import read_array, read_table, write_array, write_table

PLAN = ("image", "number", "attempt", "seed", "label", "class", "source", "condition")


@dataclass(frozen=True, eq=False)
class Block:
    """Images that were drawn and screened together."""

    plan: pd.DataFrame
    """A row an image: `training.generators.drawing.drawing.plan_draws`."""
    hashes: np.ndarray
    """[n] of the pixels as they were compared."""
    matches: tuple[Matches, ...]
    """By every detector."""
    same: SamePixels
    """[n] with training images: as they are, mirrored or turned."""
    of_source: np.ndarray
    """[D, n] score of the image and the training image that it was conditioned on; NaN where there is none."""
    reason: np.ndarray
    """[n] why it is rejected; empty for kept images."""
    quality: np.ndarray
    """[n, d] features by which quality is measured."""

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def kept(self) -> np.ndarray:
        """[n]."""
        return self.reason == ""

    def save(self, folder: Path, name: str) -> None:
        """Write it, the table last: a block without its table is drawn again."""
        columns = {name: self.plan[name].to_numpy() for name in PLAN if name != "source"}
        columns |= {"pixel_hash": self.hashes, "identical": self.same.row, "reason": self.reason}
        columns |= {"orientation": self.same.orientation}
        for place, found in enumerate(self.matches):
            columns |= {f"score_{place}": found.score, f"row_{place}": found.row, f"second_{place}": found.second}
            columns[f"of_source_{place}"] = self.of_source[place]
        write_array(folder / f"{name}.npy", self.quality)
        write_table(folder / f"{name}.parquet", pd.DataFrame(columns))

    @classmethod
    def load(cls, folder: Path, name: str, plan: pd.DataFrame) -> "Block | None":
        """What `save` left of a part of the plan; None where there is none, or it is of another part.

        Args:
            folder: Of the blocks.
            name: Of this one.
            plan: Rows that it is to hold.
        """
        try:
            found = read_table(folder / f"{name}.parquet")
            quality = read_array(folder / f"{name}.npy")
            if found["seed"].tolist() != plan["seed"].tolist() or len(quality) != len(plan):
                return None
            n = sum(column.startswith("score_") for column in found)
            given = [[found[f"{what}_{i}"].to_numpy() for what in ("score", "row", "second")] for i in range(n)]
            return cls(
                plan=plan,
                hashes=found["pixel_hash"].to_numpy(dtype=object),
                matches=tuple(Matches(*three) for three in given),
                same=SamePixels(found["identical"].to_numpy(), found["orientation"].to_numpy()),
                of_source=np.array([found[f"of_source_{i}"].to_numpy() for i in range(n)]),
                reason=found["reason"].to_numpy(dtype=object),
                quality=quality,
            )
        except (OSError, ValueError, KeyError, EOFError):
            return None


@dataclass(frozen=True, eq=False)
class Ledger:
    """All blocks of a loop, in the order in which they were drawn."""

    blocks: tuple[Block, ...]
    n_asked: int
    """Places that were to be filled."""

    @property
    def plan(self) -> pd.DataFrame:
        """A row a drawn image."""
        return pd.concat([block.plan for block in self.blocks], ignore_index=True)

    @property
    def hashes(self) -> np.ndarray:
        """[S] of the pixels as they were compared."""
        return np.concatenate([block.hashes for block in self.blocks])

    @property
    def reason(self) -> np.ndarray:
        """[S] why an image was rejected; empty for kept ones."""
        return np.concatenate([block.reason for block in self.blocks])

    @property
    def of_source(self) -> np.ndarray:
        """[D, S] score of an image and what it was conditioned on; NaN where there is nothing."""
        return np.concatenate([block.of_source for block in self.blocks], axis=1)

    def score(self, detector: int) -> np.ndarray:
        """[S] best score of each image over all training images, by one detector."""
        return np.concatenate([block.matches[detector].score for block in self.blocks])

    @property
    def quality(self) -> np.ndarray:
        """[S, d] features by which quality is measured."""
        return np.concatenate([block.quality for block in self.blocks])

    @property
    def first(self) -> np.ndarray:
        """[n_asked] rows of the first draw of every place: what the generator gives without the loop."""
        return np.flatnonzero(self.plan["attempt"].to_numpy() == 0)

    @property
    def kept(self) -> np.ndarray:
        """[K] rows of the kept images, by their numbers."""
        rows = np.flatnonzero(self.reason == "")
        return rows[np.argsort(self.plan["number"].to_numpy()[rows], kind="stable")]

    def screened(self, thresholds: Sequence[float], real: tuple[Matches, ...]) -> Screened:
        """What the detectors say of everything drawn.

        Args:
            thresholds: Of each detector.
            real: Of the calibration images.
        """
        every = [block.matches for block in self.blocks]
        joined = [
            Matches(*(np.concatenate([getattr(m[place], what) for m in every]) for what in ("score", "row", "second")))
            for place in range(len(thresholds))
        ]
        same = [np.concatenate([getattr(b.same, what) for b in self.blocks]) for what in ("row", "orientation")]
        return Screened(tuple(thresholds), tuple(joined), real, SamePixels(*same))
