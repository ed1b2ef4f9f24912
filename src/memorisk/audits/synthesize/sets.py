"""The real images of a loop: training and calibration ones, decoded alike; and the patients that the generator knows.

Generated images among real ones are refused: each would count as a patient's, and be searched for copies of itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from memorisk.audits.comparison.knowledge import refuse_known, trained_on_more, unknown_weights
from memorisk.audits.comparison.sets import Source, decode_alike, manifest_of, read_source
from memorisk.audits.filter import sets as filter_sets
from memorisk.audits.filter.sets import CALIBRATION, FilterSets
from memorisk.audits.run_images import OTHER, TRAIN
from memorisk.audits.synthesize.ledger import StoredForm
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.table_three import COMPLETION_FILE
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.sources.registry import GENERATED
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.models.generators.generators import Generator
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Progress
from memorisk.training.detectors.pair_detectors import PairDetector

WRITERS = {GENERATED: "generate", COMPLETION_FILE: "synthesize"}
"""The file that marks a finished folder, and the command that writes it."""


def refuse_generated(what: str, source: Manifest | ImageStore) -> None:
    """Refuse a folder of ``memorisk generate`` or ``synthesize`` among real images.

    Args:
        what: Name of the real images, such as training.
        source: The images; nothing is known of images that lie in no folder.

    Raises:
        InputError: An image lies in such a folder, at whatever depth.
    """
    for folder in _folders(manifest_of(source)):
        for file, command in WRITERS.items():
            if (folder / file).is_file():
                raise InputError(
                    f"the {what} images hold the folder {one_line(folder)}, which memorisk {command} wrote ({file}): a "
                    "generated image would count as a patient's; leave that folder out"
                )


def _folders(manifest: Manifest) -> Iterator[Path]:
    """List the folders in which images lie, those above them up to the root, and the one above that, each once."""
    if manifest.root is None:
        return
    root = manifest.root.absolute()
    yield from (root, root.parent)  # of a generated set's own folder of images
    visited = {root}
    paths = (str(path) for path in manifest.table["path"] if path and not str(path).startswith(BUILTIN))
    for folder in {path.rpartition("/")[0] for path in paths if "/" in path}:
        for above in (root / folder, *(root / folder).parents):
            if above in visited or not above.is_relative_to(root):
                break
            visited.add(above)
            yield above


@dataclass(frozen=True, eq=False)
class RealSets:
    """Real images that drawn images are compared with."""

    filter: FilterSets
    """Training and calibration images; until one is drawn, an empty image takes the place of the synthetic ones."""
    form: StoredForm
    """Form in which drawn images are compared."""
    doubts: tuple[str, ...]
    """Doubts that copies of some people are found, since TRAIN is not all that the generator has seen."""
    decoded: int
    """Bytes of the images that were decoded for it; of what was handed in decoded none."""


def read_real(
    train: Source,
    calibration: Source | None,
    generator: Generator,
    detectors: Sequence[PairDetector],
    options: SynthesizeOptions,
    progress: Progress,
) -> RealSets:
    """Read and decode the real images, and leave out calibration identities that are not new.

    Args:
        train: Images that the generator was trained on.
        calibration: Images of new people.
        generator: Generator that draws, which may know the patients it was trained on.
        detectors: Detectors that choose.
        options: Options by which images are read.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Images cannot be read or compared, some are generated ones, or the generator knows calibration
            patients.
    """
    whole = read_source(train, options.of_real())
    nothing = _placeholder(whole)
    opened = filter_sets.open_manifests(whole, nothing, calibration, options, progress)
    real = options.of_real()
    sources = {TRAIN: opened.train, CALIBRATION: opened.unseen, OTHER: opened.others}
    for what, source in sources.items():
        if source is not None:
            refuse_generated(what, source)
    stores = decode_alike(sources, dict.fromkeys(sources, real), progress)
    form = StoredForm.of(stores[TRAIN], generator.config, options.of_synthetic())
    blank = store_of_pixels(np.zeros((1, *form.shape), np.uint8), stores[TRAIN], "nothing", ids=["nothing"])
    opened = replace(
        opened, train=stores[TRAIN], synthetic=blank, unseen=stores.get(CALIBRATION), others=stores.get(OTHER)
    )
    sets = filter_sets.decode_sets(opened, detectors, progress, calibration_unseen=options.calibration_unseen)
    remarks = [refuse_known(generator, stores[CALIBRATION], "the calibration images")] if CALIBRATION in stores else []
    remarks += [unknown_weights(generator, stores[TRAIN]), form.note(generator.config)]
    sets = replace(sets, notes=(*sets.notes, *(note for note in remarks if note)))
    more = trained_on_more(generator, stores[TRAIN])
    decoded = sum(store.images.nbytes for what, store in stores.items() if isinstance(sources[what], Manifest))
    return RealSets(sets, form, (more,) if more else (), decoded)


def _placeholder(train: Manifest | ImageStore) -> Manifest:
    """Return an empty synthetic set, since nothing is drawn yet."""
    return replace(manifest_of(train).subset(np.empty(0, dtype=np.intp)), notes=(), name="drawn")
