"""The replayed batches are those a training saw, and what is measured on them is what was done to the mark."""

import numpy as np
import pytest
import torch

from memorisk.images.alterations.marks import burn_stored, letter
from memorisk.models.classifiers.zoo import seeded
from memorisk.runs.errors import InputError
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.mark_variants import MarkVariants, mark_variants, replay
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import AUGMENTATIONS, Normalisation, dataset_normalisation
from tests.training.helpers import Digits, NoisyNet

SLOT, SIZE, EPOCHS = 37, 14, 40
ROWS = np.random.default_rng(0).permutation(90)[:73]
COLOURS = np.random.default_rng(1).integers(0, 200, (90, SIZE, SIZE + 2, 3)).astype(np.uint8)
SCALE = Normalisation((0.3, 0.4, 0.5), (0.2, 0.25, 0.3))


def marked_by(name: str = "L", place: tuple[int, int] = (1, 1)) -> np.ndarray:
    return burn_stored(COLOURS[ROWS[SLOT]][None], letter(name, place=place))[0]


def variants(augment: str | None, place: tuple[int, int] = (1, 1), name: str = "L") -> MarkVariants:
    options = TrainOptions(lr=1e-2, batch_size=16, augment=augment)
    return mark_variants(
        COLOURS, ROWS, SLOT, marked_by(name, place), options,
        seed=3, epochs=EPOCHS, normalisation=SCALE, place=place, shape=(5, 5),
    )  # fmt: skip


@pytest.mark.parametrize("augment", ["hflip", "contrast", "shift1", "contrast,shift1,hflip", "rotate,crop", None])
@pytest.mark.parametrize("colour", [False, True])
def test_what_is_replayed_is_what_the_network_was_fed(digits: Digits, augment: str | None, colour: bool) -> None:
    images = COLOURS if colour else digits.images
    marked = burn_stored(images[ROWS[SLOT]][None], letter("F", place=(1, 1)))[0]
    rows = ROWS.copy()
    rows[SLOT] = len(images)
    options = TrainOptions(epochs=4, lr=1e-2, batch_size=16, augment=augment)
    scale = dataset_normalisation(images)
    fed: list[torch.Tensor] = []
    with seeded(0):
        model = NoisyNet()
    model.conv = torch.nn.Conv2d(images.shape[-1], 8, 3)
    model.register_forward_pre_hook(lambda module, x: fed.append(x[0].clone()) if module.training else None)
    everything, labels = np.concatenate([images, marked[None]]), np.arange(len(images) + 1) % 10
    fit(model, everything, labels, rows, options, seed=5, normalisation=scale)
    given = {"seed": 5, "epochs": 4, "normalisation": scale}
    steps = list(replay(images, ROWS, SLOT, marked, options, **given))
    places = []
    for epoch, step in enumerate(steps):
        batches = fed[epoch * 5 : epoch * 5 + 5]  # 73 slots: 16, 16, 16, 16, 9
        same = [number for number, batch in enumerate(batches) if torch.equal(batch, step.marked)]
        assert len(same) == 1
        places.append((same[0], step.at))
        others = torch.arange(len(step.marked)) != step.at
        assert torch.equal(step.plain[others], step.marked[others])
        assert not torch.equal(step.plain[step.at], step.marked[step.at])
    assert len(set(places)) > 1
    assert len(fed) == 20


def test_without_augmentation_the_mark_is_as_it_is() -> None:
    found = variants(None)
    assert found.same.all()
    np.testing.assert_array_equal(found.kept, np.ones(EPOCHS))
    assert not found.row_shift.any()
    assert not found.column_shift.any()
    assert not found.mirrored.any()
    np.testing.assert_array_equal(found.pictures, marked_by()[None, 1:6, 1:6])
    assert found.counts.tolist() == [EPOCHS]


def test_a_mirrored_mark() -> None:
    found = variants("hflip")
    assert 5 < found.mirrored.sum() < 35
    np.testing.assert_array_equal(found.same, ~found.mirrored)
    np.testing.assert_allclose(found.kept, 1, rtol=1e-6)
    assert not found.row_shift.any()
    np.testing.assert_array_equal(found.column_shift, np.where(found.mirrored, SIZE + 2 - 5 - 2, 0))
    picture = marked_by()[1:6, 1:6]
    order = [picture, picture[:, ::-1]] if found.mirrored.sum() < 20 else [picture[:, ::-1], picture]
    np.testing.assert_array_equal(found.pictures, np.stack(order))
    assert found.counts.tolist() == sorted([int(found.mirrored.sum()), int((~found.mirrored).sum())], reverse=True)


@pytest.mark.parametrize("place", [(1, 1), (1, 10), (8, 1), (8, 10)])
@pytest.mark.parametrize("name", ["L", "A", "X"])
@pytest.mark.parametrize("augment", ["shift1", "contrast,shift1"])
def test_a_moved_mark_is_found_where_it_is(place: tuple[int, int], name: str, augment: str) -> None:
    """Also where the edge that is repeated is the mark's own last line."""
    found = variants(augment, place, name)
    assert set(zip(found.row_shift.tolist(), found.column_shift.tolist(), strict=True)) == {
        (-r, -c) for r in (0, 1) for c in (0, 1)
    }
    assert not found.mirrored.any()
    still = (found.row_shift == 0) & (found.column_shift == 0)
    if augment == "shift1":
        np.testing.assert_array_equal(found.same, still)
        row, column = place
        picture = marked_by(name, place)[row : row + 5, column : column + 5]
        np.testing.assert_array_equal(found.pictures, picture[None])
        assert found.counts.tolist() == [EPOCHS]
        assert float(found.kept.min()) > 1 - 1e-6
    else:
        assert not found.same.any()
        assert 10 < len(found.pictures) <= 20  # where contrast rose, black and white stay the ends of the range
        assert found.counts.tolist() == sorted(found.counts, reverse=True)
        assert found.counts.sum() == EPOCHS


def test_contrast_keeps_the_square_of_its_factor() -> None:
    """Up to the shift of the whole image's mean, which adds (1 - f)^2 mean^2 a pixel."""
    found = variants("contrast")
    assert not found.row_shift.any()
    assert not found.column_shift.any()
    assert not found.same.any()
    assert 0.6 < found.kept.min() < 0.75
    assert 1.3 < found.kept.max() < 1.5
    difference = (marked_by().astype(float) - COLOURS[ROWS[SLOT]]) / 255
    energy, mean = (difference**2).sum(), difference.mean(axis=(0, 1))
    share = (mean**2).sum() * SIZE * (SIZE + 2) / energy
    factor = np.sqrt((found.kept - share) / (1 - share))  # the sum of (f d + (1 - f) m)^2 is f^2 (S - n m^2) + n m^2
    assert 0.8 <= factor.min() < 0.83
    assert 1.17 < factor.max() <= 1.2


def test_only_the_most_frequent_pictures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = variants("contrast,hflip")
    monkeypatch.setattr("memorisk.training.classifiers.mark_variants.MOST_PICTURES", 3)
    few = variants("contrast,hflip")
    np.testing.assert_array_equal(few.pictures, everything.pictures[:3])
    np.testing.assert_array_equal(few.counts, everything.counts[:3])


def test_a_mark_that_is_cut_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AUGMENTATIONS, "cut", lambda x, generator: x * (torch.arange(x.shape[2]) > 6)[:, None])
    monkeypatch.setattr("memorisk.training.engine.options.AUGMENTATION_NAMES", ("cut",))
    found = variants("cut")
    assert not found.kept.any()
    assert not found.same.any()
    assert not found.row_shift.any()
    assert not found.column_shift.any()
    assert not found.mirrored.any()


def test_sixteen_bits(digits: Digits) -> None:
    images = COLOURS.astype(np.uint16) * 257
    marked = burn_stored(images[ROWS[SLOT]][None], letter("L", place=(1, 1)))[0]
    options = TrainOptions(lr=1e-2, batch_size=16, augment="shift1")
    given = {"seed": 3, "epochs": 5, "normalisation": SCALE, "place": (1, 1), "shape": (5, 5)}
    found = mark_variants(images, ROWS, SLOT, marked, options, **given)
    np.testing.assert_array_equal(found.pictures, marked_by()[None, 1:6, 1:6])


def test_refusals(digits: Digits) -> None:
    def refuse(said: str, **changed: object) -> None:
        given = {
            "images": COLOURS, "rows": ROWS, "slot": SLOT, "marked": marked_by(), "options": TrainOptions(lr=1e-2),
            "seed": 3, "epochs": 2, "normalisation": SCALE, "place": (1, 1), "shape": (5, 5),
        }  # fmt: skip
        with pytest.raises(InputError, match=said):
            mark_variants(**{**given, **changed})

    refuse("these are features", images=digits.features)
    refuse("slot is 73; there are 73", slot=73)
    refuse("needed is one like the images", marked=marked_by()[1:])
    refuse("needed is one like the images", marked=marked_by().astype(np.uint16))
    refuse("does not lie within 14 x 16 px", place=(10, 1))
    refuse("does not lie within 14 x 16 px", place=(-1, 1))
    refuse("are the same within", marked=COLOURS[ROWS[SLOT]])
    refuse("outside the mark's rectangle", shape=(4, 5))
    refuse("epochs is 0", epochs=0)
