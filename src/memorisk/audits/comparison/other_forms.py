"""Copies of training images that the generator saw in another form than the audit.

Planted copies have the form in which the audit reads training images. A generator draws in the form that its training
saw; where that is another one, no copy lies near its source. Training images are therefore compared with the set in
two kinds of other forms, as near copies are, by a rule that is learned from each form:

* *Inverted*: a DICOM file may declare that its greys are shown inverted, and a training on its stored values saw them
  as they are stored.
* *Brought to size by the other rules of resizing*: images that are not square have three forms of one size.

Not covered: copies of other kinds in these forms. An audit that reads training images so looks for these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import cast, get_args

import numpy as np

from memorisk.images.copies.near_copies import RULE_IMAGES, near_copies_between, rule_of_stores, thumbnails
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions, Resize
from memorisk.images.pixels import PixelRule, Source
from memorisk.images.readers.headers import image_header
from memorisk.images.store import ImageStore, build_store, manifest_sources
from memorisk.images.volumes import is_volume
from memorisk.runs.errors import InputError
from memorisk.runs.workload import Progress

INVERTED = "inverted"
"""Name of the form with inverted greys."""


class _Inverted(Sequence[np.ndarray]):
    """Images with inverted values, made where they are read."""

    nbytes = 0

    def __init__(self, images: np.ndarray) -> None:
        self.images, self.dtype, self.shape = images, images.dtype, images.shape

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        return np.iinfo(self.dtype).max - np.asarray(self.images[at])


Forms = Mapping[str, Sequence[ImageStore]]
"""Real images in each other form, by its name: training images first, then held-out ones where there are some."""


def other_forms(real: Sequence[ImageStore], options: ImageOptions, progress: Progress) -> Forms:
    """Invert real images, and read them by the other rules of resizing where some training image is not square.

    Args:
        real: Training images as they are compared, then held-out ones where there are some.
        options: Options by which they were read.
        progress: Called with (stage, done, total).

    Returns:
        Stores by the name of the form, with rows as in ``real``: `INVERTED`, and rules of resizing; none for volumes.
    """
    shape = real[0].images.shape[1:]
    if is_volume(shape):
        return {}
    inverted = [replace(store, images=cast(np.ndarray, _Inverted(store.images))) for store in real]
    if shape[:2] != (options.size, options.size) or not _is_oblong(real[0].manifest, options):
        return {INVERTED: inverted}
    channels = 1 if shape[2] == 1 else 3
    forms = {INVERTED: inverted}
    for rule in get_args(Resize):
        if rule != options.resize:
            of_form = replace(options, resize=rule, channels=channels)
            counted = partial(progress, f"decoding real images by {rule}")
            forms[rule] = [build_store(store.manifest, of_form, progress=counted) for store in real]
    return forms


def _is_oblong(manifest: Manifest, options: ImageOptions) -> bool:
    """Return whether some image is not square, by its file's header, or by its pixels where a header lacks the sides.

    Images in rows of Parquet and Arrow have no header of the file.
    """
    rule, header_of = PixelRule.of(options), cache(image_header)

    def is_oblong(source: Source) -> bool:
        header = header_of(source.file, source.member or "")
        if header is not None:
            return header.width != header.height
        try:
            height, width = rule.read(source).shape[:2]
        except (InputError, OSError):  # the store counts such an image, with the reason
            return False
        return height != width

    return any(is_oblong(source) for source in manifest_sources(manifest))


def compared_forms(forms: Forms, n_synthetic: int, n_plants: int) -> int:
    """Count the pairs of images that `alike_in_other_forms` compares.

    Args:
        forms: Real images in each other form.
        n_synthetic: Number of synthetic images.
        n_plants: Number of planted copies.
    """
    n_pairs = 0
    for form, stores in forms.items():
        hashes = {value for store in stores for value in store.pixel_hashes.tolist()}
        n, n_compared = min(RULE_IMAGES, len(hashes)), n_synthetic + n_plants * (form == INVERTED)
        n_pairs += n * (n - 1) // 2 + n_compared * len(stores[0].images)
    return n_pairs


def alike_in_other_forms(
    synthetic: ImageStore,
    forms: Forms,
    known: frozenset[tuple[int, int]],
    progress: Progress,
    plants: np.ndarray | None = None,
) -> tuple[dict[str, int], np.ndarray]:
    """Count the synthetic images that are nearly identical to a training image in another form.

    Planted copies are compared with inverted training images alone: none is planted by another rule of resizing.

    Args:
        synthetic: The set.
        forms: Real images in each other form.
        known: Rows of synthetic and training images that are nearly identical in the form of the audit.
        progress: Called with (stage, done, total).
        plants: Pixels of planted copies, [P, H, W, C]; None without any.

    Returns:
        Number of images by the name of the form, for forms in which there are some; and whether each planted copy is
        nearly identical to an inverted training image, [P].
    """
    small = thumbnails(synthetic.images) if forms else np.empty(0)
    counts, inverted = {}, np.zeros(0 if plants is None else len(plants), dtype=bool)
    for form, stores in forms.items():
        of_form = [thumbnails(store.images) for store in stores]
        rule = rule_of_stores(
            *stores,
            small=of_form,
            compared_with=len(small),
            progress=partial(progress, f"learning how alike two people are, {form}"),
        )
        near = near_copies_between(
            small,
            of_form[0],
            rule,
            synthetic.images.__getitem__,
            stores[0].images.__getitem__,
            progress=partial(progress, f"looking for near copies, {form}"),
        )[1]
        confirmed = near.only(near.confirmed)
        counts[form] = len({s for s, r in zip(confirmed.first, confirmed.second, strict=True) if (s, r) not in known})
        if form == INVERTED and plants is not None and len(plants):
            near = near_copies_between(
                thumbnails(plants), of_form[0], rule, plants.__getitem__, stores[0].images.__getitem__
            )[1]
            inverted[near.only(near.confirmed).first] = True
    return {form: n for form, n in counts.items() if n}, inverted
