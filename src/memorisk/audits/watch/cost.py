"""What a watch takes: features of the real images once, and at every look images drawn, passed and compared."""

from collections.abc import Sequence

from memorisk.audits.watch.options import AUTO
from memorisk.audits.watch.quality import NO_FID
from memorisk.audits.watch.watching import MemorizationWatch
from memorisk.models.encoders.encoders import parse_source
from memorisk.runs.cost import Cost
from memorisk.training.features.cost import WITHOUT_NETWORK, features_cost
from memorisk.training.generators.drawing.generating import kind_cost

_UNDEFINED = ("cosine", "jensenshannon", "correlation")


def watch_cost(
    watch: MemorizationWatch, looks: Sequence[int] | None, *, kind: str, quality: str, bound: bool, decoded: int = 0
) -> Cost:
    """Of looks that are still to be had.

    Args:
        watch: With the real images.
        looks: Images of each; None where nobody knows how many looks there will be.
        kind: Of the generator that draws them; empty where they lie in folders.
        quality: Features of FID.
        bound: Whether the training may end before the last of them.
        decoded: Bytes of images that are stored for it.

    Returns:
        Drawn images with the same pixels go through a detector's network once, and those of which the measure knows no
        distance are not compared: bounds.
    """
    real, n = watch.real, None if looks is None else sum(looks)
    stores = (real.train, real.held)
    found = features_cost(
        real.detector.source, [s.pixel_hashes for s in stores], real.train.images.shape, real.detector.detector
    )
    networks = int(real.detector.source.kind not in WITHOUT_NETWORK)
    if quality not in (AUTO, NO_FID):
        source = parse_source(quality)
        networks += int(source.kind not in WITHOUT_NETWORK)
        found += features_cost(source, [s.pixel_hashes for s in stores], real.train.images.shape)
    found += Cost(bytes_images=decoded)
    if n is None:
        return found + Cost(images_drawn=None if kind else 0, images_passed=None, pairs=None)
    drawn = kind_cost(kind, watch.options.sampling(), n) if kind else Cost()
    loose = ["pairs"] if networks or real.detector.measure in _UNDEFINED else []
    loose += ["images_passed"] if networks else []
    if bound:
        loose = ["images_drawn", "images_passed", "pairs"]
    compared = n * (len(real.train.images) + len(real.held.images))
    return found + drawn + Cost(images_passed=networks * n, pairs=compared, at_most=tuple(loose))
