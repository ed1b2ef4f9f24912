"""All targets."""

from tests.fuzz.image_targets import image_targets
from tests.fuzz.model_targets import model_targets
from tests.fuzz.own_targets import own_targets
from tests.fuzz.release_targets import release_targets
from tests.fuzz.set_targets import set_targets
from tests.fuzz.target import Target


def all_targets() -> tuple[Target, ...]:
    """Everything that memorisk reads."""
    return (*image_targets(), *set_targets(), *own_targets(), *release_targets(), *model_targets())
