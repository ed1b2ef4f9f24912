"""Settings of a GAN: what is refused, and the default weight of R1."""

from dataclasses import replace

import pytest

from memorisk.runs.errors import InputError
from memorisk.training.generators.options import GanSettings


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gan_style": 0}, "gan_style is 0; it must be at least 1"),
        ({"gan_augment": "some"}, "unknown gan_augment 'some'"),
        ({"gan_augmentations": "bx"}, "letters of bgc"),
        ({"gan_augmentations": "bb"}, "letters of bgc"),
        ({"gan_augmentations": ""}, "letters of bgc"),
        ({"gan_augment_p": 0.9}, "between 0 and 0.8"),
        ({"gan_r1": -1.0}, "gan_r1 is -1.0"),
        ({"gan_path": float("inf")}, "gan_path is inf"),
        ({"gan_ema_images": 2.5}, "give a whole number"),
    ],
)
def test_wrong_values_are_refused(given: dict, said: str) -> None:
    GanSettings().validate()
    with pytest.raises(InputError, match=said):
        replace(GanSettings(), **given).validate()


def test_the_default_weight_of_r1_follows_pixels_and_batch() -> None:
    assert GanSettings().r1_gamma(32 * 32, 32) == pytest.approx(0.0064)
    assert GanSettings(gan_r1=10.0).r1_gamma(32 * 32, 32) == 10


@pytest.mark.parametrize(("size", "channels"), [(48, 1), (4, 1), (2048, 3), (32, 2)])
def test_images_that_are_no_powers_of_two_are_refused(size: int, channels: int) -> None:
    with pytest.raises(InputError, match="a GAN takes squares of 8, 16"):
        GanSettings().gan_spec(size, channels)
    assert GanSettings().gan_spec(32, 1).width(32) == 32
