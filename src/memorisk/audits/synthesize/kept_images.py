"""The images that `memorisk synthesize` kept, read back from their files for the final audit."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from memorisk.audits.synthesize.drawn import StoredForm, read_images, store_of_hashes
from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.sets import RealSets
from memorisk.images.decoding.decoding import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.runs.errors import GOES_ON, MemoriskError, one_line
from memorisk.training.generators.drawing.drawing import image_name

_AT_ONCE = 256


def kept_store(folder: Path, file: Path, ledger: Ledger, real: RealSets) -> ImageStore:
    """The kept images as they are on the disk, in the form in which they were compared.

    Args:
        folder: Where their files lie.
        file: Where the pixels that were compared are put together, ``.npy``.
        ledger: Which they are.
        real: For the form.

    Raises:
        MemoriskError: A file is not what was looked at.
    """
    rows = ledger.kept
    plan, hashes = ledger.plan.iloc[rows].reset_index(drop=True), ledger.hashes[rows]
    names = [image_name(int(number)) for number in plan["number"]]
    pixels = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(len(rows), *real.form.shape))
    for begin in range(0, len(rows), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        pixels[part] = _checked(folder, names[part], hashes[part], real.form)
    pixels.flags.writeable = False
    train = real.filter.train
    store = store_of_hashes(train, pixels, hashes, names, plan["class"].tolist(), "kept images")
    known = set(map(str, train.manifest.images))
    source = [str(image) if str(image) in known else "" for image in plan["source"]]
    return replace(store, manifest=replace(store.manifest, table=store.manifest.table.assign(source=source)))


def _checked(folder: Path, names: list[str], hashes: np.ndarray, form: StoredForm) -> np.ndarray:
    """[n, *shape] of kept files, which must be what was screened."""
    try:
        pixels = form.pixels(read_images(folder, names))
        changed = [
            name for name, image, known in zip(names, pixels, hashes, strict=True) if hash_pixels(image) != known
        ]
    except (OSError, ValueError, SyntaxError) as error:
        raise MemoriskError(f"kept images cannot be read: {one_line(error, 120)}; {GOES_ON}") from None
    if changed:
        raise MemoriskError(
            f"kept image {changed[0]} has changed since it was screened: remove the folder, and begin again"
        )
    return pixels
