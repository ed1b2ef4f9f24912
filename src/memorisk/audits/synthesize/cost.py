"""What a loop takes at most: every place takes all its tries, every image reaches the threshold, and all are kept.

Calibration, screening, table 3 and the audit of the kept set by one account. What cannot all come true at once (an
image that is rejected is not audited) is counted all the same, so that the numbers are bounds.
"""

from collections.abc import Sequence

from memorisk.audits.filter.families import Family
from memorisk.audits.synthesize.final_audit import audit_cost
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.rounds import BESIDE, BLOCK
from memorisk.audits.synthesize.sets import RealSets
from memorisk.audits.synthetic.pictures import MOST
from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import Generator
from memorisk.runs.cost import Cost, total
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.features.cost import WITHOUT_NETWORK, dimension, features_cost
from memorisk.training.generators.drawing.generating import drawing_cost

_FLOAT32 = 4
_BOUNDS = ("images_passed", "images_drawn", "pairs", "bytes_features")


def loop_cost(
    generator: Generator,
    places: int,
    real: RealSets,
    detectors: Sequence[PairDetector],
    families: Sequence[Family],
    counted: Sequence[MissGuarantee],
    auditor: PairDetector | None,
    quality: PairDetector,
    options: SynthesizeOptions,
) -> Cost:
    """Of a whole loop; of one that may not begin, since identities are missing, only the decoded images.

    Args:
        generator: Which draws.
        places: To be filled.
        real: The real images.
        detectors: Which choose.
        families: Of copies.
        counted: How many identities there are and are needed, of each family.
        auditor: Of the kept set.
        quality: Whose features quality is measured by.
        options: Tries, batch, gallery.
    """
    stored = Cost(bytes_images=real.decoded)
    if not options.threshold and not all(found.kept for found in counted):
        return stored
    train, beside = real.filter.train, min(BESIDE, len(real.filter.train.images))
    blocks = -(-places // max(BLOCK, options.batch))
    screened = options.most_tries * (places + beside * blocks)
    shown = MOST if options.gallery and not options.redact else 0
    parts = [stored, drawing_cost(generator, options.sampling(), options.most_tries * places + shown)]
    copies = sum(found.n_identities for family, found in zip(families, counted, strict=True) if family.copied)
    asked = 0 if real.filter.calibration is None else len(real.filter.calibration.images)
    for detector in detectors:
        parts.append(_features(detector, [train, real.filter.calibration], train, screened + copies))
        parts.append(Cost(pairs=2 * (asked + screened) * len(train.images)))
    parts.append(_quality(real, detectors, auditor, quality, places, screened, options))
    if auditor is not None and real.held is not None:
        parts.append(audit_cost(train, real.held, places, options))
    return total(parts) + Cost(at_most=_BOUNDS)


def _quality(
    real: RealSets,
    detectors: Sequence[PairDetector],
    auditor: PairDetector | None,
    quality: PairDetector,
    places: int,
    screened: int,
    options: SynthesizeOptions,
) -> Cost:
    """Of table 3: features of the first draws, the kept and new people's images; nearest training images of all."""
    train, reference = real.filter.train, real.held or real.filter.calibration
    plain = options.input_size is None and options.normalise is None
    known = plain and quality.source in [detector.source for detector in detectors]
    parts = [Cost() if known else _features(quality, [train], train, screened)]
    n, of_new = places, 0
    if reference is not None:
        of_new, n = len(reference.images), min(places, len(reference.images))
        new = real.held is not None
        parts += [_features(quality, [reference], train, 0)] if new or not known else []
        parts += [_features(detectors[0], [reference], train, 0)] if new and quality is not detectors[0] else []
    by_features = auditor is not None and auditor.head is not None
    nearest = (2 + (reference is not None)) * n + (2 * places if by_features else 0) + of_new
    return total(parts) + Cost(pairs=nearest * len(train.images))


def _features(detector: PairDetector, stores: Sequence[ImageStore | None], train: ImageStore, more: int) -> Cost:
    """Of images that there are, and of so many that are made."""
    shape, hashes = train.images.shape, [store.pixel_hashes for store in stores if store is not None]
    d = dimension(detector.source, shape, detector.detector)
    return features_cost(detector.source, hashes, shape, detector.detector) + Cost(
        images_passed=0 if detector.source.kind in WITHOUT_NETWORK else more,
        bytes_features=None if d is None else _FLOAT32 * d * more,
    )
