"""A synthetic run as its pages need it: its pairs, the pictures of a pair, and the verdict that a review would give."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.comparison.review_files import CONFIRM, DISMISS
from memorisk.audits.run_images import SOURCES
from memorisk.audits.synthetic.foreseen import OPEN, Counted, Foreseen, Foresight, JudgedPair
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.result import matrices
from memorisk.images.copies.near_copies import ORIENTATIONS
from memorisk.images.pixels import same_channels
from memorisk.report.blocks import Block, Callout, Heading, Paragraph, Steps
from memorisk.report.columns import capitalized, column_texts, short
from memorisk.report.first_screen import BOXES
from memorisk.report.result import from_storable
from memorisk.report.statements.statement import run_headline
from memorisk.report.stored_columns import Columns
from memorisk.runs.errors import InputError, plural, read_guard
from memorisk.runs.files import read_json, read_table
from memorisk.runs.settings import written_settings
from memorisk.view.images import ViewedImages
from memorisk.view.review import PairReview, Progress
from memorisk.view.screened import ScreenedPairs

PER_PAGE = 24


@dataclass(frozen=True)
class Pane:
    """Picture in a row of pictures, or the reason why it is missing."""

    title: str
    alternative: str
    address: str = ""
    name: str = ""
    """Id of the image."""
    text: str = ""
    why: str = ""
    difference: bool = False


@dataclass(frozen=True)
class Tile:
    """Tile of the grid that shows a pair."""

    place: int
    verdict: str
    synthetic: str
    train: str
    found_by: str
    pictures: tuple[Pane, Pane]


@dataclass(frozen=True)
class Judging:
    """Data that a page needs for an answer to a pair."""

    key: str
    progress: Progress
    foreseen: list[Block]
    file: str
    """Path of the file of answers."""
    last_reason: str
    """Reason of the last dismissal."""
    reviewer: str


class PairRun:
    """Finished run whose synthetic images are shown with training images.

    Args:
        folder: Path of the run folder.
        config: Settings of the run.
        address: Address of its pages.
        pairs: Pairs of the run.
    """

    def __init__(
        self, folder: Path, config: Mapping[str, Any], address: str, pairs: PairReview | ScreenedPairs
    ) -> None:
        self.folder, self.config, self.address, self.pairs = folder, config, address, pairs
        self.images = ViewedImages(folder, config, SOURCES)

    @cached_property
    def neighbours(self) -> Columns:
        """Return, for each synthetic image, the images that the audit found nearest."""
        return Columns(self.folder / "per_image.parquet")

    @cached_property
    def laid(self) -> dict[tuple[str, str], tuple[np.ndarray, str]]:
        """Return, for pairs that were laid on one another, the matrix and what was done, in words."""
        path = self.folder / "tables" / "alignments.parquet"
        if not path.is_file():
            return {}
        table = from_storable(read_table(path))
        pairs = zip(column_texts(table, "image"), column_texts(table, "training_image"), strict=True)
        return dict(zip(pairs, zip(matrices(table), column_texts(table, "alignment"), strict=True), strict=True))

    @cached_property
    def orientations(self) -> dict[tuple[str, str], str]:
        """Return, for pairs alike by pixels, what turns the synthetic image into the real one."""
        path = self.folder / "tables" / "pairs.parquet"
        if not path.is_file():
            return {}
        table = Columns(path)
        pairs = zip(table.texts("image"), table.texts("real_image"), strict=True)
        return dict(zip(pairs, table.texts("orientation"), strict=True))

    def tiles(self, page: int) -> list[Tile]:
        """Return the pairs of a page of the grid, from 1."""
        first = (page - 1) * PER_PAGE
        return [self._tile(place) for place in range(first, min(first + PER_PAGE, len(self.pairs)))]

    def _tile(self, place: int) -> Tile:
        generated, real = self.pairs.images(place)
        answer = self.pairs.answer(place)
        pictures = (
            self._pane("synthetic", generated, "", small=True, alternative="Synthetic image"),
            self._pane("training", real, "", small=True, alternative="Training image"),
        )
        return Tile(
            place,
            "" if answer is None else answer.verdict,
            generated,
            real,
            self.pairs.text(place, "found_by"),
            pictures,
        )

    def panes(self, place: int) -> list[Pane]:
        """Return the pictures of a pair: both images, their difference, and the next nearest."""
        generated, real = self.pairs.images(place)
        how = self._how(generated, real)
        panes = [self._pane("synthetic", generated, "Synthetic image")]
        laid = self._pane("training", real, "Training image")
        if laid.address and panes[0].address:
            changed = how not in ("", ORIENTATIONS[0], "as it lies")
            if changed:
                at = f"{self.address}/pair/{place}/laid"
                laid = Pane("Training image, laid on it", f"The training image, {how}", at, real, how)
            at = f"{self.address}/pair/{place}/difference"
            difference = Pane("Difference", "Where the two differ", at, difference=True)
            panes += [laid, difference]
            if changed:
                panes.append(self._pane("training", real, "Training image, as it is"))
        else:
            panes.append(laid)
        return [*panes, *self._others(generated, real)]

    def _others(self, made: str, real: str) -> list[Pane]:
        """Return the next nearest training image, and the nearest held-out one."""
        row = self.neighbours.row_of("image", made)
        if row is None:
            return []
        nearest, second, held = (
            self.neighbours.text(name, row) for name in ("nearest_image", "second_image", "held_out_image")
        )
        next_one, title = (second, "Next nearest patient") if nearest == real else (nearest, "Nearest training image")
        panes = []
        if next_one:
            panes.append(self._pane("training", next_one, title))
        if held:
            panes.append(self._pane("held out", held, "Nearest held-out image"))
        return panes

    def _pane(self, part: str, name: str, title: str, *, small: bool = False, alternative: str = "") -> Pane:
        """Return the picture of an image of a part."""
        row = self.images.row(part, name)
        if row is None:
            return Pane(title, alternative or title, name=name, why=self.images.reason(part) or "not found")
        address = f"{self.address}/image/{part.replace(' ', '-')}/{row}{'?small=1' if small else ''}"
        return Pane(title, alternative or title, address, name)

    def _how(self, made: str, real: str) -> str:
        """Describe what was done to the training image to lie on the synthetic one."""
        if (made, real) in self.laid:
            return self.laid[made, real][1]
        return self.orientations.get((made, real), "")

    def both(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a synthetic image and the training image laid on it, of one shape.

        Raises:
            InputError: One of the images cannot be shown.
        """
        generated_name, real_name = self.pairs.images(place)
        generated, real = same_channels(
            *(self._pixels(part, name) for part, name in (("synthetic", generated_name), ("training", real_name)))
        )
        pair = generated_name, real_name
        if pair in self.laid:
            from memorisk.images.copies.alignment import laid_slice  # OpenCV, which most pages do without

            matrix = self.laid[pair][0]
            source = real if len(matrix) == 2 else self._pixels("training", real_name, whole=True)
            return generated, laid_slice(source, matrix, generated.shape)
        return generated, unturned(real, self.orientations.get(pair, ORIENTATIONS[0]))

    def difference(self, place: int) -> np.ndarray:
        """Return the absolute difference of a pair, scaled to uint8, [h, w, c].

        Raises:
            InputError: One of the images cannot be shown, or they differ in shape.
        """
        generated, laid = self.both(place)
        if generated.shape != laid.shape:
            raise InputError("the two images differ in shape")
        top = 255.0 if generated.dtype == np.uint8 else max(1.0, float(max(generated.max(), laid.max())))
        return np.rint(np.abs(generated.astype(np.float64) - laid.astype(np.float64)) * (255 / top)).astype(np.uint8)

    def _pixels(self, part: str, name: str, *, whole: bool = False) -> np.ndarray:
        row = self.images.row(part, name)
        if row is None:
            raise InputError(self.images.reason(part) or f"this {part} image does not exist")
        return self.images.part(part).pixels(row, whole=whole)

    def score(self, place: int) -> str:
        """Return the score that a pair has from the search that found it; empty without one."""
        value = self.pairs.score[self.pairs.rows(place)[0]]
        return "" if np.isnan(value) else short(value)


class SyntheticRun(PairRun):
    """Finished run of ``audit synthetic``, whose pairs a person judges.

    Args:
        folder: Path of the run folder.
        config: Settings of the run.
        address: Address of its pages.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], address: str) -> None:
        self.review = PairReview(folder)
        super().__init__(folder, config, address, self.review)

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """Return the further pages of the run: address, name and content of each."""
        progress = self.review.progress
        more = f"{progress.open:,} of {progress.pairs:,} are open"
        return [(f"{self.address}/pairs", "Look at the pairs", more)] if progress.pairs else []

    @cached_property
    def foresight(self) -> Foresight:
        """Return the numbers that a review can change.

        Raises:
            InputError: The run is damaged, or an earlier version of memorisk wrote it.
        """
        with read_guard(self.folder):
            options = SyntheticOptions(**written_settings(SyntheticOptions, self.config))
            dismissed = self.judged(DISMISS, self.review.before)
            return Foresight(read_json(self.folder / "summary.json"), self._counted(), options, dismissed)

    def _counted(self) -> Counted:
        """Return the pairs and patients behind the reasons of the verdict."""
        tables = self.folder / "tables"
        pairs = Columns(tables / "pairs.parquet")
        of = list(zip(pairs.texts("image"), pairs.texts("real_image"), strict=True))
        training = np.array([part == "training" for part in pairs.texts("part")], dtype=bool)
        same, groups = pairs.booleans("identical"), pairs.texts("group")
        people = Columns(self.folder / "per_group.parquet")
        listed, ahead = (
            frozenset(people.texts("group", np.flatnonzero(people.booleans(name)))) for name in ("listed", "ahead")
        )
        chosen = []
        for name, flag in (("singled_out", ""), ("alignments", "confirmed")):
            path = tables / f"{name}.parquet"
            if not path.is_file():
                chosen.append(())
                continue
            table = Columns(path)
            rows = np.flatnonzero(table.booleans(flag)) if flag else np.arange(len(table))
            chosen.append(tuple(zip(table.texts("image", rows), table.texts("training_image", rows), strict=True)))
        review = self.review.columns
        before = zip(*(review.texts(name) for name in ("synthetic_image", "training_image", "changed")), strict=True)
        certain = np.flatnonzero(training & same & ~pairs.booleans("in_both"))
        return Counted(
            same=frozenset(of[row] for row in certain),
            near={of[row]: groups[row] for row in np.flatnonzero(training & ~same)},
            listed=listed,
            ahead=ahead,
            singled=chosen[0],
            aligned=chosen[1],
            changed=frozenset((generated, real) for generated, real, verdict in before if verdict == CONFIRM),
        )

    def judged(self, verdict: str, answers: Mapping[str, Any]) -> list[JudgedPair]:
        """Return the pairs of some answers, with every row of the table that belongs to them."""
        review = self.review
        return [
            JudgedPair(*(review.columns.text(name, row) for name in ("synthetic_image", "training_image", "patient")))
            for key, answer in answers.items()
            if answer.verdict == verdict
            for row in review.rows(review.place_of[key])
        ]

    def judging(self, place: int) -> Judging:
        """Return the data that a page needs for an answer to a pair."""
        review = self.review
        last = review.last
        return Judging(
            key=review.keys[place],
            progress=review.progress,
            foreseen=self.foreseen(),
            file=str(review.path),
            last_reason="" if last is None else last.reason,
            reviewer=review.reviewer,
        )

    def foreseen(self) -> list[Block]:
        """Return the verdict with the answers so far."""
        progress, answers = self.review.progress, self.review.answers()
        if not answers:
            return [_foreseen_block(None, progress.open)]
        verdict = self.foresight.verdict(self.judged(CONFIRM, answers), self.judged(DISMISS, answers))
        return [_foreseen_block(verdict, progress.open)]


class FilterRun(PairRun):
    """Finished run of ``filter``, whose pairs are only looked at.

    Args:
        folder: Path of the run folder.
        config: Settings of the run.
        address: Address of its pages.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], address: str) -> None:
        self.screened = ScreenedPairs(folder)
        super().__init__(folder, config, address, self.screened)

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """Return the further pages of the run, as `SyntheticRun.links`."""
        more = f"{plural(self.screened.n_left_out, 'image', 'images')} left out and {self.screened.n_kept:,} kept"
        return [(f"{self.address}/pairs", "Look at the pairs", more)]

    @cached_property
    def orientations(self) -> dict[tuple[str, str], str]:
        """Return, for pairs with the same pixels, what turns the synthetic image into the training image."""
        return self.screened.orientations


def unturned(image: np.ndarray, orientation: str) -> np.ndarray:
    """Return the image that an orientation turned into this one, [h, w, c]; see `near_copies.orientations`."""
    at = ORIENTATIONS.index(orientation) if orientation in ORIENTATIONS else 0
    back = np.rot90(image, -(at % 4))
    return np.ascontiguousarray(back[:, ::-1] if at % 8 >= 4 else back)


def _foreseen_block(found: Foreseen | None, open_pairs: int) -> Block:
    """Return the verdict with a review as a box."""
    open_words = f" {open_pairs:,} {'pair is' if open_pairs == 1 else 'pairs are'} not judged yet."
    open_words = open_words if open_pairs else " All pairs are judged."
    if found is None:
        return Callout("note", "Nothing is judged yet: the verdict is that of the run", [Paragraph(open_words.strip())])
    if found.status == OPEN:
        blocks_of_doubt: list[Block] = [
            Paragraph(
                "Dismissed pairs make room for the next image, whose distance the run did not keep. The audit, "
                f"repeated with this review, decides.{open_words}"
            )
        ]
        if found.why:
            blocks_of_doubt += [
                Heading("What remains, as far as this run's tables tell"),
                Steps([*map(capitalized, found.why)]),
            ]
        return Callout("note", "With this review: to be seen", blocks_of_doubt)
    kind, headline = BOXES[found.status], run_headline(found.status, "synthetic")
    blocks = [Paragraph(open_words.strip()), Steps([capitalized(why) for why in found.why])]
    return Callout(kind, f"With this review: {headline[0].lower()}{headline[1:]}", blocks)
