"""The loop: draw what has no passing image yet, screen it against the whole training set, draw the rejected again.

Paper 004, section 3.4: "If the model produces a sample that matches its training counterpart too closely, the sample is
rejected and regenerated." Here it must not match any training image. A place keeps its class or condition over its
attempts; only the seed changes (`training.generators.draws.image_seed`).

Blocks lie the same whatever was done before, and each is written when it is screened: a killed loop continues from
there, and ends at the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.comparison.sets import select_rows, stack_stores
from memorisk.audits.filter.screening import Matches, ScreeningDetector, screen
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.filter.wording import SCORE
from memorisk.audits.synthesize.ledger import Block, Ledger, StoredForm, read_images
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.verdict import is_hopeless, rejection_words
from memorisk.images.copies.near_copies import SamePixels
from memorisk.images.pixels import hash_pixels
from memorisk.images.plain_png import encode_png
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.models.generators.generators import Generator
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.intervals import Proportion
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.engine.devices import limited_threads
from memorisk.training.features.matrix import Features
from memorisk.training.generators.draws import draw, draw_again, image_name

STAGE = "drawing and screening"
BLOCK = 256
"""Images of a block at least; a generator's batch where that is larger."""
TRAINING_BESIDE_BLOCK = (
    2  # training images added to a block: features of a handful of images may all be alike, which is refused
)


@dataclass(frozen=True, eq=False)
class DrawScreening:
    """Detectors and limits by which an image is screened."""

    opened: Sequence[ScreeningDetector]
    """Detectors, opened for screening."""
    sets: FilterSets
    """Sets that give the training images."""
    thresholds: Sequence[float]
    """Threshold of each detector, frozen."""
    form: StoredForm
    """Form in which drawn images are compared."""
    quality: PairDetector
    """Detector whose features measure quality."""
    options: SynthesizeOptions

    def block(self, plan: pd.DataFrame, images: np.ndarray) -> Block:
        """Screen images.

        Args:
            plan: Plan rows of the images.
            images: Images as they were drawn, [n, H, W, C].

        Raises:
            InputError: Features are not available.
        """
        train, n = self.sets.train, len(plan)
        ids, labels = plan["image"].tolist(), plan["class"].tolist()
        drawn = store_of_pixels(self.form.pixels(images), train, "drawn", ids=ids, labels=labels)
        both = stack_stores([drawn, select_rows(train, np.arange(min(TRAINING_BESIDE_BLOCK, len(train.images))))])
        sets = replace(self.sets, synthetic=both, asked=both.manifest, calibration=None)
        screening = screen(self.opened, sets, self.thresholds, self.options, no_progress)
        of_source = np.array([self._of_source(one, both, plan) for one in self.opened])
        reason = screening.reason[:n]
        matched = (of_source >= np.array(self.thresholds)[:, None]).any(axis=0)
        reason[matched & (reason == "")] = SCORE  # a pair is one of those of all; set here where rounding decides
        return Block(
            plan=plan,
            hashes=drawn.pixel_hashes,
            matches=tuple(Matches(m.score[:n], m.row[:n], m.second[:n]) for m in screening.synthetic),
            same=SamePixels(screening.same.row[:n], screening.same.orientation[:n]),
            of_source=of_source,
            reason=reason,
            quality=np.array(quality_features(self.quality, both, train, self.options).values[:n]),
        )

    def _of_source(self, opened: ScreeningDetector, store: ImageStore, plan: pd.DataFrame) -> np.ndarray:
        """Return the score of each image and the training image it was conditioned on, [n]; NaN without."""
        place = {str(image): row for row, image in enumerate(self.sets.train.manifest.images)}
        rows = np.array([place.get(str(source), -1) for source in plan["source"]], dtype=np.int64)
        score = np.full(len(plan), np.nan)
        usable_rows = np.flatnonzero(rows >= 0)
        if not len(usable_rows):
            return score
        values = np.asarray(opened.features(store, self.options, no_progress).values[: len(plan)])
        usable_rows = usable_rows[opened.usable(values[usable_rows])]
        if len(usable_rows):
            score[usable_rows] = opened.similarity.scores(values[usable_rows], opened.train.values[rows[usable_rows]])
        return score


def quality_features(
    detector: PairDetector,
    store: ImageStore,
    train: ImageStore,
    options: SynthesizeOptions,
    progress: Progress = no_progress,
) -> Features:
    """Return the features by which quality is measured.

    Args:
        detector: Detector that computes the features.
        store: The images.
        train: Training images, on which components are fitted.
        options: Options that give the device.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available.
    """
    return detector.features(
        store, reference=train, device=options.device, precision=options.precision, progress=progress
    )


@dataclass(frozen=True, eq=False)
class LoopFolders:
    """Folders that the loop writes to."""

    blocks: Path
    """Folder of the ledger's blocks."""
    kept: Path
    """Folder of the images that pass."""
    rejected: Path | None
    """Folder of the images that do not pass; None where they are not to be written."""


def run_rounds(
    generator: Generator,
    plan: pd.DataFrame,
    screen_by: DrawScreening,
    places: LoopFolders,
    device: str,
    new: Proportion | None,
    progress: Progress,
) -> Ledger:
    """Fill every place of a plan, or give it up after the last try; all of them after the first where that is hopeless.

    Where the threshold rejects (nearly) every new patient's real image, and not one first draw passed, no place is
    tried again. Both are the same in every run of a command, so that a killed one ends alike.

    Args:
        generator: Generator that draws.
        plan: The first attempt at every place: `training.generators.draws.plan_draws`.
        screen_by: Detectors and limits by which an image is screened.
        places: Folders that the loop writes to.
        device: Device of the generator.
        new: Share of new patients that the thresholds reject; None where it is not known.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available.
        MemoriskError: The disk is full; what is done is kept.
    """
    options, blocks, waiting = screen_by.options, [], plan
    filled, size, stage = 0, max(BLOCK, options.batch), STAGE
    if new is not None and is_hopeless(new):
        stage = f"{STAGE} ({rejection_words(new, 'patients')})"
    for attempt in range(options.most_tries):
        failed = []
        for begin in range(0, len(waiting), size):
            progress(stage, filled, len(plan))
            part, name = waiting.iloc[begin : begin + size].reset_index(drop=True), f"{attempt:04d}-{begin:08d}"
            block = Block.load(places.blocks, name, part)
            if block is None or not _are_images_complete(block, places, screen_by.form):
                with limited_threads(options.threads):
                    images = draw(generator, part, options.sampling(), device)
                block = screen_by.block(part, images)
                _write_images(block, images, places)
                block.save(places.blocks, name)
            blocks.append(block)
            filled += int(block.kept.sum())
            failed.append(part[~block.kept])
        waiting = pd.concat(failed, ignore_index=True)
        if not len(waiting) or (is_hopeless(new) and not filled):
            break
        waiting = draw_again(waiting, options.seed)
    progress(stage, filled, len(plan))
    return Ledger(tuple(blocks), len(plan))


def _image_files(block: Block, places: LoopFolders) -> Iterator[tuple[int, Path, str]]:
    """Yield the images of a block that are to be on the disk, each with its folder and name."""
    columns = (block.plan["number"], block.plan["attempt"], block.kept)
    for row, (number, attempt, passed) in enumerate(zip(*columns, strict=True)):
        if passed:
            yield row, places.kept, image_name(number)
        elif places.rejected is not None:
            yield row, places.rejected, image_name(number, attempt)


def _write_images(block: Block, images: np.ndarray, places: LoopFolders) -> None:
    """Write the images of a block; a torn file is found and drawn again, so that the disk need not be waited for."""
    for row, folder, name in _image_files(block, places):
        temporary = folder / f".{name}.part"
        temporary.write_bytes(encode_png(images[row]))
        temporary.chmod(0o600)
        temporary.replace(folder / f"{name}.png")


def _are_images_complete(block: Block, places: LoopFolders, form: StoredForm) -> bool:
    """Return whether the images of a block are on the disk as they were screened."""
    try:
        return all(
            hash_pixels(form.pixels(read_images(folder, [name]))[0]) == block.hashes[row]
            for row, folder, name in _image_files(block, places)
        )
    except (OSError, ValueError, SyntaxError):  # what Pillow calls a broken file
        return False
