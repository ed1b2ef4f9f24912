"""Copies of training images that the generator saw brought to size by another rule than that of the audit.

Images that are not square have three forms of one size: squashed, cropped and padded. A generator draws in the form
that its training saw, and planted copies have the form of the audit. Where `--resize` names another one than the
training used, no copy lies near its source. Therefore training images are also read by the two other rules, and
compared with the set as near copies are, by a rule that is learned from them.

Not covered: copies of other kinds in these forms. An audit with the other `--resize` looks for these.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np

from memorisk.images.copies.near_copies import RULE_IMAGES, near_copies_between, rule_of_stores, thumbnails
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions, Resize
from memorisk.images.readers.headers import image_header
from memorisk.images.store import ImageStore, build_store
from memorisk.images.volumes import is_volume
from memorisk.runs.workload import Progress


def other_forms(store: ImageStore, options: ImageOptions, progress: Progress) -> dict[str, ImageStore]:
    """Read images that are not square by the other rules of resizing.

    Args:
        store: Images as they are compared.
        options: Options by which they were read.
        progress: Called with (stage, done, total).

    Returns:
        Store of each other rule, with rows as in ``store``; none where no image is brought to size, or all are square.
    """
    shape = store.images.shape[1:]
    if is_volume(shape) or shape[:2] != (options.size, options.size) or not _is_oblong(store.manifest):
        return {}
    channels = 1 if store.images.shape[3] == 1 else 3
    return {
        rule: build_store(
            store.manifest,
            replace(options, resize=rule, channels=channels),
            progress=partial(progress, f"decoding training images by {rule}"),
        )
        for rule in get_args(Resize)
        if rule != options.resize
    }


def _is_oblong(manifest: Manifest) -> bool:
    """Return whether the header of some file is that of an image which is not square."""
    members = manifest.table["member"].tolist() if "member" in manifest.table else [None] * manifest.n
    files = {(manifest.file(row), str(member or "")) for row, member in enumerate(members)}
    headers = (image_header(*file) for file in sorted(files))
    return any(header is not None and header.width != header.height for header in headers)


def compared_forms(forms: Mapping[str, ImageStore], n_synthetic: int) -> int:
    """Count the pairs of images that `alike_in_other_forms` compares.

    Args:
        forms: Training images by each other rule.
        n_synthetic: Number of synthetic images.
    """
    different = [min(RULE_IMAGES, len(set(store.pixel_hashes.tolist()))) for store in forms.values()]
    return sum(n * (n - 1) // 2 for n in different) + n_synthetic * sum(len(store.images) for store in forms.values())


def alike_in_other_forms(
    synthetic: ImageStore, forms: Mapping[str, ImageStore], known: frozenset[tuple[int, int]], progress: Progress
) -> dict[str, int]:
    """Count the synthetic images that are nearly identical to a training image in another form.

    Args:
        synthetic: The set.
        forms: Training images by each other rule.
        known: Rows of synthetic and training images that are nearly identical in the form of the audit.
        progress: Called with (stage, done, total).

    Returns:
        Number of images by rule, for rules by which there are some.
    """
    small = thumbnails(synthetic.images) if forms else np.empty(0)
    counts = {}
    for rule, store in forms.items():
        of_form = thumbnails(store.images)
        learned = rule_of_stores(
            store,
            small=[of_form],
            compared_with=len(small),
            progress=partial(progress, f"learning how alike two people are by {rule}"),
        )
        near = near_copies_between(
            small,
            of_form,
            learned,
            synthetic.images.__getitem__,
            store.images.__getitem__,
            progress=partial(progress, f"looking for near copies by {rule}"),
        )[1]
        confirmed = near.only(near.confirmed)
        counts[rule] = len({s for s, r in zip(confirmed.first, confirmed.second, strict=True) if (s, r) not in known})
    return {rule: n for rule, n in counts.items() if n}
