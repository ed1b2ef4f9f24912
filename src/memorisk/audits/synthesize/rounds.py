"""The loop: draw what has no passing image yet, screen it against the whole training set, draw the rejected again.

Paper 004, section 3.4: "If the model produces a sample that matches its training counterpart too closely, the sample is
rejected and regenerated." Here it must not match any training image. A place keeps its class or condition over its
attempts; only the seed changes (`training.generators.draws.image_seed`).

Blocks lie the same whatever was done before, and each is written when it is screened: a killed loop continues from
there, and ends at the same bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.comparison.sets import select_rows, stack_stores
from memorisk.audits.filter.screening import Matches, ScreeningDetector, screen
from memorisk.audits.filter.wording import SCORE
from memorisk.audits.synthesize.ledger import Block, Ledger, StoredForm, read_images
from memorisk.audits.synthesize.loop import Loop
from memorisk.audits.synthesize.verdict import is_hopeless, rejection_words
from memorisk.images.copies.near_copies import SamePixels
from memorisk.images.pixels import hash_pixels
from memorisk.images.plain_png import encode_png
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.draws import draw, draw_again, image_name

STAGE = "drawing and screening"
BLOCK = 256
"""Images of a block at least; a generator's batch where that is larger."""
TRAINING_BESIDE_BLOCK = (
    2  # training images added to a block: features of a handful of images may all be alike, which is refused
)


def screen_block(loop: Loop, plan: pd.DataFrame, images: np.ndarray) -> Block:
    """Screen images.

    Args:
        loop: Loop with its thresholds.
        plan: Plan rows of the images.
        images: Images as they were drawn, [n, H, W, C].

    Raises:
        InputError: Features are not available.
    """
    train, opened, thresholds, n = loop.train, loop.calibrated.opened, loop.thresholds, len(plan)
    ids, labels = plan["image"].tolist(), plan["class"].tolist()
    drawn = store_of_pixels(loop.real.form.pixels(images), train, "drawn", ids=ids, labels=labels)
    both = stack_stores([drawn, select_rows(train, np.arange(min(TRAINING_BESIDE_BLOCK, len(train.images))))])
    sets = replace(loop.sets, synthetic=both, candidates=both.manifest, calibration=None)
    screening = screen(opened, sets, thresholds, no_progress)
    of_source = np.array([_of_source(one, train, both, plan) for one in opened])
    reason = screening.reason[:n]
    matched = (of_source >= np.array(thresholds)[:, None]).any(axis=0)
    reason[matched & (reason == "")] = SCORE  # a pair is one of those of all; set here where rounding decides
    return Block(
        plan=plan,
        hashes=drawn.pixel_hashes,
        matches=tuple(Matches(m.score[:n], m.row[:n], m.second[:n]) for m in screening.synthetic),
        same=SamePixels(screening.same.row[:n], screening.same.orientation[:n]),
        identical_other=screening.identical_other[:n],
        of_source=of_source,
        reason=reason,
        quality=np.array(loop.quality_features(both).values[:n]),
    )


def _of_source(opened: ScreeningDetector, train: ImageStore, store: ImageStore, plan: pd.DataFrame) -> np.ndarray:
    """Return the score of each image and the training image it was conditioned on, [n]; NaN without."""
    place = {str(image): row for row, image in enumerate(train.manifest.images)}
    rows = np.array([place.get(str(source), -1) for source in plan["source"]], dtype=np.int64)
    score, conditioned = np.full(len(plan), np.nan), np.flatnonzero(rows >= 0)
    if not len(conditioned):
        return score
    values = np.asarray(opened.features(store, no_progress).values[: len(plan)])
    conditioned = conditioned[opened.usable(values[conditioned])]
    if len(conditioned):
        score[conditioned] = opened.similarity.scores(values[conditioned], opened.train.values[rows[conditioned]])
    return score


@dataclass(frozen=True, eq=False)
class LoopFolders:
    """Folders that the loop writes to."""

    blocks: Path
    """Folder of the ledger's blocks."""
    kept: Path
    """Folder of the images that pass."""
    rejected: Path | None
    """Folder of the images that do not pass; None where they are not to be written."""


def run_rounds(loop: Loop, places: LoopFolders, progress: Progress) -> Ledger:
    """Fill every place of a plan, or give it up after the last try; all of them after the first where that is hopeless.

    Where the threshold rejects (nearly) every new patient's real image, and not one first draw passed, no place is
    tried again. Both are the same in every run of a command, so that a killed one ends alike.

    Args:
        loop: Loop with its thresholds.
        places: Folders that the loop writes to.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available.
        MemoriskError: The disk is full; what is done is kept.
    """
    options, plan, new, blocks, waiting = loop.options, loop.plan, loop.calibrated.new, [], loop.plan
    filled, size, stage = 0, max(BLOCK, options.batch), STAGE
    if new is not None and is_hopeless(new):
        stage = f"{STAGE} ({rejection_words(new, 'patients')})"
    for attempt in range(options.most_tries):
        failed = []
        for begin in range(0, len(waiting), size):
            progress(stage, filled, len(plan))
            part, name = waiting.iloc[begin : begin + size].reset_index(drop=True), f"{attempt:04d}-{begin:08d}"
            block = Block.load(places.blocks, name, part)
            if block is None or not _are_images_complete(block, places, loop.real.form):
                with limited_threads(options.threads):
                    images = draw(loop.generator, part, options.sampling(), loop.device)
                block = screen_block(loop, part, images)
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
