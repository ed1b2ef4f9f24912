"""Windows of images as features: which they are, which have no details, and the sources that name them."""

import numpy as np
import pytest
import torch

from memorisk.images.alterations.plants import ALL_KINDS
from memorisk.images.copies.duplicates import details, thumbnail
from memorisk.models import windows
from memorisk.models.copy_detectors import load_detector
from memorisk.models.encoders.feature_sources import parse_source
from memorisk.models.encoders.networks import open_encoder, preparation
from memorisk.models.windows import GRIDS, WindowedNetwork, WindowGrid
from memorisk.runs.errors import InputError
from memorisk.scores.parts import PLACES, VIEWS
from memorisk.training.detectors.pair_detectors import open_pair_detector
from memorisk.training.features.extraction import dimension


def prepared(encoder, images):
    x = torch.from_numpy(images).to(encoder.dtype).div(255).movedim(-1, 1)
    return preparation(encoder.preprocessing, torch.device("cpu"), encoder.dtype)(x)


def embedded(source, images):
    encoder = open_encoder(parse_source(source), images.shape[1:])
    module, _ = encoder.load()
    with torch.inference_mode():
        return module(prepared(encoder, images)).numpy()


def test_windows_lie_at_even_places_the_whole_image_first():
    image = torch.arange(20.0 * 30).reshape(1, 1, 20, 30)
    grid = WindowGrid(share=0.5, across=3, side=8, whole=True)
    cut = WindowGrid(share=0.5, across=3, side=10, whole=False).cut(image[..., :20])
    assert grid.cut(image).shape == (1, grid.n, 1, 8, 8)
    for number, (y, x) in enumerate((y, x) for y in (0, 5, 10) for x in (0, 5, 10)):
        torch.testing.assert_close(cut[0, number], image[0, :, y : y + 10, x : x + 10])


def test_turned_views_are_the_image_turned():
    image = torch.rand(1, 1, 33, 33, generator=torch.Generator().manual_seed(0))
    grid = WindowGrid(share=1.0, across=0, side=33, whole=True, turns=(90.0, -90.0))
    whole, right, left = grid.cut(image)[0]
    torch.testing.assert_close(whole, image[0])
    torch.testing.assert_close(left, image[0].rot90(-1, (1, 2)), atol=1e-4, rtol=0)
    torch.testing.assert_close(right, image[0].rot90(1, (1, 2)), atol=1e-4, rtol=0)


def test_every_turn_that_is_planted_lies_near_a_view():
    """Half of the step between two views is the most that a planted copy is away from one."""
    turns = np.array([0.0, *GRIDS[VIEWS].turns])
    planted = np.concatenate([sign * np.linspace(*ALL_KINDS["rotated"].limits, 100) for sign in (-1, 1)])
    assert np.abs(planted[:, None] - turns).min(axis=1).max() <= np.diff(np.sort(turns)).max() / 2


def test_copies_are_embedded_whole_alone(tmp_path):
    images = np.random.default_rng(3).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    detector, width = open_pair_detector("default:views"), load_detector("default").config.dimension
    sources, copies = (
        detector.features(tmp_path / "images.npz", as_copies=as_copies).values for as_copies in (False, True)
    )
    np.testing.assert_allclose(copies, sources[:, :width], atol=1e-6)
    assert sources.shape[1] == GRIDS[VIEWS].n * width
    assert GRIDS[PLACES].of_copies == GRIDS[PLACES]


@pytest.mark.parametrize("comparison", [PLACES, VIEWS])
def test_each_window_has_the_vector_of_the_detector(comparison):
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    grid, network = GRIDS[comparison], load_detector("default").network
    vectors = embedded(f"default:{comparison}", images).reshape(3, grid.n, -1)
    windows = grid.cut(torch.from_numpy(images).float().div(255).movedim(-1, 1))
    with torch.inference_mode():
        alone = torch.stack([network(windows[:, w]) for w in range(grid.n)], dim=1).numpy()
    np.testing.assert_allclose(vectors, alone, atol=1e-4)
    assert dimension(parse_source(f"default:{comparison}"), images.shape, load_detector("default")) == vectors[0].size


def test_a_window_without_details_has_no_vector():
    images = np.random.default_rng(1).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    images[:, :32, :32] = 7
    vectors = embedded("default:places", images).reshape(GRIDS[PLACES].n, -1)
    assert not vectors[0].any()
    assert vectors[-1].any()
    blank = WindowedNetwork(load_detector("default").network, GRIDS[PLACES])(torch.zeros(1, 3, 64, 64))
    assert not blank.any()


@pytest.mark.parametrize("channels", [1, 3])
def test_details_are_those_of_near_copies(channels):
    images = np.random.default_rng(2).integers(0, 256, (4, 48, 40, channels), dtype=np.uint8)
    expected = details(np.stack([thumbnail(image) for image in images]))
    assert ((embedded("details", images) * expected).sum(axis=1) > 0.98).all()


def test_sources_by_name():
    assert parse_source("default:places").parts == PLACES
    assert parse_source("default:views").shown == "default:views"
    assert parse_source("default:views").comes_with_memorisk
    assert parse_source("details").is_details
    with pytest.raises(InputError, match="unknown windows of the detector default 'place'"):
        parse_source("default:place")
    for source in ("default:places", "details"):
        assert open_pair_detector(source).measure == "whitened"
        with pytest.raises(InputError, match="compared by its own measure"):
            open_pair_detector(source, measure="cosine")


@pytest.mark.parametrize(("pixels", "passes"), [(1, 28), (5 * 16, 6), (1 << 19, 1)])
def test_passes_of_any_size_give_the_vectors_of_all_windows(monkeypatch, pixels, passes):
    sizes = []

    class Mean(torch.nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            return x.mean(dim=(2, 3))

    monkeypatch.setattr(windows, "PASS_PIXELS", pixels)
    grid = WindowGrid(share=0.5, across=3, side=4, whole=True, turns=(10.0, -10.0, 20.0, -20.0))
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(WindowedNetwork(Mean(), grid)(images), grid.cut(images).mean(dim=(3, 4)).reshape(2, -1))
    assert (len(sizes), sum(sizes)) == (passes, 2 * grid.n)
