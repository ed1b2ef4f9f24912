"""Who is trained on, and whose images are repeated."""

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError
from memorisk.runs.workload import no_progress
from memorisk.studies.generators.config import ALL, Duplicates, GeneratorSet, read_generators
from memorisk.studies.generators.plan import SetData, draw_training, plan_cells, prepare_set
from tests.studies.generators.conftest import CONFIG


@pytest.fixture(scope="module")
def digits() -> SetData:
    """Digits whose patients have three images each."""
    data = prepare_set("Digits", GeneratorSet("digits", ImageOptions(sample=300), held_out=0.3), no_progress)
    groups = np.array([f"p{i // 3}" for i in range(len(data.store.images))], dtype=object)
    part = np.random.default_rng(0).permutation(100) < 70
    rows = np.arange(300)
    return SetData("Digits", data.store, groups, rows[np.repeat(part, 3)], rows[np.repeat(~part, 3)], 0)


def test_patients_are_on_one_side_only() -> None:
    data = prepare_set("Digits", GeneratorSet("digits", ImageOptions(sample=300), held_out=0.3), no_progress)
    assert not set(data.groups[data.pool]) & set(data.groups[data.held_out])
    assert len(data.pool) + len(data.held_out) + data.blank == 300
    assert len(data.held_out) == pytest.approx(90, abs=3)


def test_fewer_are_the_first_of_more_and_patients_stay_together(digits: SetData) -> None:
    few, more, everyone = (draw_training(digits, size, 5, None) for size in (20, 90, ALL))
    assert len(few.rows) == 20
    assert set(few.rows) < set(more.rows) < set(everyone.rows)
    assert np.array_equal(everyone.rows, digits.pool)
    counts = np.unique(few.groups, return_counts=True)[1]
    assert sorted(counts) == [2, *[3] * 6]  # whole patients, and two images of the last
    assert not np.array_equal(draw_training(digits, 20, 6, None).rows, few.rows)


def test_copies_are_drawn_by_patient(digits: SetData) -> None:
    found = draw_training(digits, 180, 1, Duplicates((4, 16), 10))
    for level in (4, 16):
        who = np.unique(found.groups[found.copies == level])
        assert len(who) == 10
        assert not set(who) & set(found.groups[found.copies != level])
    assert (found.copies == 1).sum() == 180 - 2 * 30
    assert len(found.repeated) == 120 + 30 * 4 + 30 * 16
    assert np.array_equal(np.unique(found.repeated), found.rows)
    plain = draw_training(digits, 180, 1, None)
    assert np.array_equal(plain.rows, found.rows)


@pytest.mark.parametrize(
    ("size", "copies", "words"),
    [(211, None, "211 training images are requested, of 210"), (90, Duplicates((4, 16), 15), "leave none of 30")],
)
def test_too_few_are_refused(digits: SetData, size: int, copies: Duplicates | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        draw_training(digits, size, 0, copies)


def test_a_generator_asked_for_twice_by_an_arm_is_trained_once(digits: SetData, tmp_path) -> None:
    config = {**CONFIG, "arms": {"copier": {"training_images": [210, ALL], "seeds": [0, 1]}}}
    cells, refused = plan_cells(read_generators(config), {"Digits": digits}, tmp_path)
    assert not refused
    assert [(cell.size, cell.seed) for cell in cells] == [(210, 0), (210, 1)]
    other = read_generators({**config, "generator": {"steps": 41, "network": "tiny/4", "batch_size": 4}})
    assert {cell.key for cell in plan_cells(other, {"Digits": digits}, tmp_path)[0]}.isdisjoint(c.key for c in cells)
    assert cells[0].draw_seed != cells[1].draw_seed
    assert cells[0].epochs(40) == pytest.approx(40 * 4 / 210)
