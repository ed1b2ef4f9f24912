"""What the generators of a study take: trainings, images drawn at every reading, and what detectors make of them."""

from collections.abc import Sequence
from dataclasses import replace

from memorisk.runs.cost import Cost, total
from memorisk.studies.generators.config import NO_QUALITY
from memorisk.studies.generators.fitting import blank_conditions, conditions_folder, weight_bytes
from memorisk.studies.generators.measuring import Detectors
from memorisk.studies.generators.plan import Cell
from memorisk.training.features.cost import WITHOUT_NETWORK, features_cost
from memorisk.training.generators.conditions.folds import fold_data
from memorisk.training.generators.cost import classifiers_cost, latents_cost, steps_cost
from memorisk.training.generators.drawing.generating import kind_cost


def study_cost(cells: Sequence[Cell], detectors: Detectors) -> Cost:
    """Of the generators that are not done; what several share is counted once.

    Args:
        cells: All generators.
        detectors: What compares images.

    Returns:
        Pairs are those of the detectors; those behind the figures of quality are not counted. Drawn images and copies
        with the same pixels go through a network once: a bound.
    """
    waiting = list({cell.key: cell for cell in cells if not cell.done}.values())
    shared: dict[object, Cost] = {}
    for cell in waiting:
        shared |= _shared(cell, detectors)
    own = [_own(cell, detectors) for cell in waiting]
    decoded = {id(cell.data.store): cell.data.store.images.nbytes for cell in cells}
    return total([*own, *shared.values()]) + Cost(bytes_images=sum(decoded.values()))


def _own(cell: Cell, detectors: Detectors) -> Cost:
    """Of one generator: its training, and what is drawn and compared at each reading that is not there."""
    settings, options = cell.arm.training(cell.seed, cell.options), cell.options
    n, m, s = len(cell.training.rows), len(cell.data.held_out), cell.n_images
    missing = [int(step) for step in cell.missing]
    last = cell.arm.snapshots[-1] in missing
    copied = sum(name in options.strengths for name in ("weak", "strong"))
    conditions = blank_conditions(cell)
    found = steps_cost(cell.data.store, cell.training.repeated, settings, cell.data.held_out, conditions)
    found += kind_cost(settings.kind, options.of_kind(settings.kind), len(missing) * s)
    networks = sum(_network(detectors, source) for source in options.detectors)
    passed = networks * (len(missing) * s + last * (copied * n + (m if cell.arm.conditioning else 0)))
    if last and options.quality_source != NO_QUALITY:
        passed += s * _network(detectors, options.quality_source)
    each = len(missing) * (3 * n * s + m * s + 2 * m * n) + last * copied * n**2
    return found + Cost(
        images_passed=passed,
        pairs=len(options.detectors) * each,
        bytes_weights=weight_bytes(cell) if options.keep_generators else 0,
        at_most=("images_passed",) if passed else (),
    )


def _shared(cell: Cell, detectors: Detectors) -> dict[object, Cost]:
    """Of what other generators of the study find there, each under a name of its own."""
    data, settings = cell.data, cell.arm.training(cell.seed, cell.options)
    found: dict[object, Cost] = {}
    for mirrored in (False, True) if settings.kind == "dit" and settings.flip else (False,):
        found["latents", data.name, settings.latent, mirrored] = latents_cost(data.store, replace(settings, flip=False))
    sources = {*cell.options.detectors, cell.options.quality_source} - {NO_QUALITY}
    for source in sources:
        opened = detectors.open(source)
        found["features", data.name, source] = features_cost(
            opened.source, [data.store.pixel_hashes], data.store.images.shape, opened.detector
        )
    if cell.arm.conditioning:
        which, told = cell.arm.conditioning, cell.classifiers
        folds = fold_data(data.store, cell.training.rows, None if which == "label-noise" else told.seed)
        found |= classifiers_cost(folds, told, which, conditions_folder(cell))
    return found


def _network(detectors: Detectors, source: str) -> int:
    """1 where images go through a network, 0 where their pixels are compared."""
    return int(detectors.open(source).source.kind not in WITHOUT_NETWORK)
