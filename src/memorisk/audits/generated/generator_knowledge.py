"""Whom a generator was trained on: who may not calibrate or be held out beside it, and what nobody knows."""

from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.models.generators.generators import Generator
from memorisk.runs.errors import InputError, one_line, several


def refuse_known(generator: Generator, store: ImageStore, what: str) -> str:
    """Refuse people of whom a generator was trained or chosen on; what is then still taken on trust, or "".

    Args:
        generator: Which draws.
        store: Images that must be new to it.
        what: They are, as "the held-out images".

    Raises:
        InputError: It was trained or chosen on some of them.
    """
    name, seen = one_line(generator.config.name, 60), generator.seen_parts(store)
    known = [] if seen is None else sorted(set(store.manifest.groups[seen.part != ""].tolist()))
    if known:
        raise InputError(
            f"{name} was trained or chosen on {several(len(known), 'patient', 'patients')} of {what}: give images of "
            "people whom it has never seen"
        )
    if seen is None or seen.missing is None:
        return f"Whom {name} was trained on is not known: that it saw none of {what} is your word."
    return ""


def trained_on_more(generator: Generator, train: ImageStore, what: str = "TRAIN") -> str:
    """What must be said of a generator that was trained on more than these images, now or before; "" where it was not.

    Args:
        generator: Which draws.
        train: The training images that are compared.
        what: They are called.
    """
    seen = generator.seen_parts(train)
    if seen is None or (seen.missing is not None and not seen.missing):
        return ""
    name = one_line(generator.config.name, 60)
    if seen.missing is None:
        return f"Whether {name} was trained on more than {what} cannot be seen: images were stored at another size"
    said = several(len(seen.missing), "image", "images")
    return f"{name} was trained on {said} that {what} does not hold: copies of those are not found"


def unknown_weights(generator: Generator, store: ImageStore) -> str:
    """What must be said of a generator that began with weights of unknown origin; "" where it did not.

    Args:
        generator: Which draws.
        store: Any images.
    """
    seen = generator.seen_parts(store)
    if seen is None or not seen.unknown:
        return ""
    name = one_line(generator.config.name, 60)
    return (
        f"{name} began with weights {listed(seen.unknown)}, and what those were trained on is not known here: whether "
        "their images are repeated is not looked for."
    )
