"""People made for the default detector, and copies of them: decided by a seed, in range, and still recognisable."""

import importlib.util
import io
import runpy
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

RECIPE = Path(__file__).parents[2] / "recipes" / "procedural_people.py"
procedural_images = runpy.run_path(str(RECIPE.with_name("procedural_pictures.py")))["procedural_images"]
spec = importlib.util.spec_from_file_location("procedural_people", RECIPE)
assert spec is not None
assert spec.loader is not None
recipe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recipe)


def pictures() -> torch.Tensor:
    return torch.from_numpy(procedural_images(24, seed=0, side=48))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def likeness(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Correlation of each image of x with each of y, at 16 x 16."""
    small = [F.interpolate(z, (16, 16), mode="area").flatten(1) for z in (x, y)]
    a, b = (F.normalize(z - z.mean(1, keepdim=True), dim=1) for z in small)
    return a @ b.T


def test_members_of_a_family_look_alike() -> None:
    people = recipe.draw_people(pictures(), 8, 4, generator())
    assert people.shape == (32, 3, 80, 80)
    assert 0 <= people.min() <= people.max() <= 1
    alike = likeness(people, people)
    family = torch.arange(32) // 4
    own = (family[:, None] == family) & ~torch.eye(32, dtype=torch.bool)
    assert alike[own].median() > alike[family[:, None] != family].median() + 0.2
    assert alike[own].max() < 0.99999  # they are people, not copies


def test_the_same_seed_draws_the_same() -> None:
    def drawn(seed: int) -> torch.Tensor:
        source = generator(seed)
        people = recipe.draw_people(pictures(), 4, 3, source)
        return torch.cat(recipe.draw_copies(people[:9], people[9:], 48, source))

    state = torch.random.get_rng_state()
    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_views_are_nearly_the_image_and_copies_are_changed() -> None:
    source = generator()
    people = recipe.draw_people(pictures(), 16, 4, source)
    inside, others = people[:48], people[48:]
    seen, copies = recipe.draw_copies(inside, others, 64, source)
    assert seen.shape == copies.shape == (48, 3, 64, 64)
    assert 0 <= copies.min() <= copies.max() <= 1
    of_views, of_copies = (likeness(made, inside).diagonal() for made in (seen, copies))
    assert of_views.median() > 0.98
    assert of_copies.median() < of_views.median()
    assert (of_copies > 0.5).float().mean() > 0.5


def test_jpeg_is_what_pillow_makes_of_grey_images() -> None:
    """Up to the rounding of its tables and pixels, which is small beside what is lost."""
    grey = procedural_images(6, seed=1, side=32)[..., 0]
    for quality in (20, 60):
        x = torch.from_numpy(grey)[:, None].float() / 255
        ours = recipe._jpeg(x, torch.full((6,), float(quality)))[:, 0].numpy() * 255
        for image, made in zip(grey, ours, strict=True):
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, "JPEG", quality=quality)
            theirs = np.asarray(Image.open(stream)).astype(float)
            apart, lost = (np.abs(np.clip(made, 0, 255) - other).mean() for other in (theirs, image.astype(float)))
            assert apart < min(2, 0.6 * lost)  # of 255; Pillow rounds coefficients and pixels once more


def test_blur_is_scipys() -> None:
    from scipy import ndimage

    x = torch.rand(3, 1, 32, 32, generator=generator())
    blurred = recipe._blurred(x, torch.tensor([0.5, 1.0, 2.0]))
    for image, made, deviation in zip(x[:, 0].numpy(), blurred[:, 0].numpy(), (0.5, 1.0, 2.0), strict=True):
        expected = ndimage.gaussian_filter(image, deviation, radius=4, mode="mirror")
        np.testing.assert_allclose(made, expected, atol=1e-5)
