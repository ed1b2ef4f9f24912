"""All targets."""

from tests.fuzz.image_targets import image_targets
from tests.fuzz.own_targets import own_targets
from tests.fuzz.target import Target


def all_targets() -> tuple[Target, ...]:
    """Everything that memorisk reads."""
    return (*image_targets(), *own_targets())
