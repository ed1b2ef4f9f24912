"""Which images are drawn: a seed to each, classes as many as asked for, conditions of training images."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError
from memorisk.training.generators.draws import (
    PLAN_COLUMNS,
    draw,
    draw_again,
    image_name,
    image_seed,
    parse_name,
    plan_draws,
)
from tests.training.small_generators import PLAIN, SmallGenerator, class_generator, noise, vector_generator

LABELS = ["b", "a", "a", "", "b", "a"]


def test_a_seed_is_what_it_was_on_other_machines_and_years() -> None:
    assert image_seed(0, 0) == 759540517790923586
    assert image_seed(7, 123456, 2) == 1642548577797997  # printf 7/123456/2 | b2sum -l 64, without its last bit


def test_seeds_of_sets_numbers_and_attempts_differ() -> None:
    found = [image_seed(s, n, a) for s in range(12) for n in range(120) for a in range(3)]
    assert len(set(found)) == len(found)
    assert all(0 <= seed < 1 << 63 for seed in found)
    assert sum(seed >= 1 << 62 for seed in found) / len(found) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("n", [1, 3, 20, 47])
def test_classes_are_equal_up_to_one_and_a_longer_set_begins_like_a_shorter(n: int) -> None:
    plan = plan_draws(class_generator(), n, seed=5)
    counts = Counter(plan["class"])
    assert sum(counts.values()) == n
    assert max(counts.values()) - min(counts[c] for c in class_generator().config.classes) <= 1
    longer = plan_draws(class_generator(), n + 9, seed=5)
    pd.testing.assert_frame_equal(plan, longer.iloc[:n])
    assert tuple(plan.columns) == PLAN_COLUMNS
    assert [class_generator().config.classes[k] for k in plan["label"]] == plan["class"].tolist()
    assert set(plan["source"]) == {""}
    assert set(plan["condition"]) == {-1}


@pytest.mark.parametrize("n", [1, 2, 10, 46, 1000])
def test_training_proportions_are_met_by_largest_remainders(n: int) -> None:
    counts = np.array([30, 10, 7])
    found = np.bincount(plan_draws(class_generator(), n, balance="training")["label"], minlength=3)
    exact = n * counts / counts.sum()
    naive = np.floor(exact).astype(int)
    for _ in range(n - naive.sum()):
        naive[np.argmax(exact - naive)] += 1
    assert found.tolist() == naive.tolist()


def test_training_proportions_hold_along_the_set_too() -> None:
    plan = plan_draws(class_generator((300, 100)), 400, balance="training")
    assert abs((plan["label"].iloc[:200] == 1).sum() - 50) <= 1


def test_a_generator_without_classes_has_none() -> None:
    plan = plan_draws(SmallGenerator(PLAIN), 4)
    assert plan["class"].tolist() == [""] * 4
    assert plan["label"].tolist() == [-1] * 4


def test_pairs_go_through_the_training_images_and_say_whose_each_is() -> None:
    generator = vector_generator(LABELS)
    plan = plan_draws(generator, 15, seed=3, paired=True)
    assert plan["source"].iloc[:12].tolist() == [f"train-{i}" for i in range(6)] * 2
    rest = plan["source"].iloc[12:].tolist()
    assert len(set(rest)) == 3
    assert plan["class"].tolist() == [LABELS[row] for row in plan["condition"]]
    others = {tuple(plan_draws(generator, 3, seed=s, paired=True)["source"]) for s in range(20)}
    assert len(others) > 5


def test_a_secret_seed_hides_whose_image_each_is() -> None:
    generator = vector_generator([""] * 60)
    for paired in (False, True):
        plain, hidden = (plan_draws(generator, 150, seed=3, paired=paired, secret=secret) for secret in (None, 11**18))
        assert (plain["source"] == hidden["source"]).mean() < 0.1
        assert plain["seed"].tolist() == hidden["seed"].tolist()
        assert hidden["source"].value_counts().between(2, 3).all()
        pd.testing.assert_frame_equal(hidden, plan_draws(generator, 150, seed=3, paired=paired, secret=11**18))


def test_conditions_are_drawn_within_classes_and_none_twice_before_all() -> None:
    generator = vector_generator(LABELS)
    plan = plan_draws(generator, 24, seed=1)
    assert Counter(plan["class"]) == {"": 8, "a": 8, "b": 8}
    times = Counter(plan["condition"])
    assert [times[i] for i in (1, 2, 5)] in ([2, 3, 3], [3, 2, 3], [3, 3, 2])
    assert times[0] == times[4] == 4
    assert times[3] == 8
    pd.testing.assert_frame_equal(plan.iloc[:11], plan_draws(generator, 11, seed=1))
    proportional = plan_draws(generator, 12, seed=1, balance="training")
    assert Counter(proportional["condition"]) == dict.fromkeys(range(6), 2)


def test_a_generator_of_vectors_needs_its_conditions() -> None:
    with pytest.raises(InputError, match="keeps no conditions"):
        plan_draws(replace(vector_generator(LABELS), known=None), 3)


@pytest.mark.parametrize("make", [class_generator, lambda: vector_generator(LABELS), lambda: SmallGenerator(PLAIN)])
def test_images_are_those_of_their_seeds_whatever_the_batch(make) -> None:
    generator = make()
    plan = plan_draws(generator, 10, seed=2)
    found = draw(generator, plan, SamplingOptions(batch=4))
    assert generator.batches == [4, 4, 2]
    for row, line in enumerate(plan.to_dict("records")):
        brighter = {"class": 100 * line["label"], "vector": 10 * line["condition"], "none": 0}
        naive = noise(line["seed"]) + np.uint8(brighter[generator.config.conditioned_on])
        assert np.array_equal(found[row], naive)
        assert np.array_equal(draw(generator, plan.iloc[[row]])[0], naive)


def test_a_rejected_image_is_drawn_again_of_the_same_class_by_another_seed() -> None:
    plan = plan_draws(vector_generator(LABELS), 9, seed=4)
    again = draw_again(draw_again(plan.iloc[[7, 2]], 4), 4)
    assert again["image"].tolist() == ["synthetic-000007-again-2", "synthetic-000002-again-2"]
    assert again["seed"].tolist() == [image_seed(4, 7, 2), image_seed(4, 2, 2)]
    same = ["number", "label", "class", "source", "condition"]
    pd.testing.assert_frame_equal(again[same], plan.iloc[[7, 2]][same].reset_index(drop=True))


def test_names_are_read_back() -> None:
    for number, attempt in ((0, 0), (17, 3), (1234567, 0), (999999, 12)):
        assert parse_name(image_name(number, attempt)) == (number, attempt)
    for wrong in ("synthetic-17", "synthetic-000017-again-0", "synthetic-0000017", "17", "synthetic-000017.png"):
        with pytest.raises(InputError, match="is not an id of a generated image"):
            parse_name(wrong)


def test_what_cannot_be_planned_is_refused() -> None:
    for message, make, settings in (
        ("at least 1", class_generator, {"n": 0}),
        ("from 0", class_generator, {"seed": -1}),
        ("Did you mean 'classes'", class_generator, {"balance": "class"}),
        ("leave paired out", class_generator, {"paired": True}),
        ("does not know how many", lambda: class_generator((0, 0)), {"balance": "training"}),
    ):
        with pytest.raises(InputError, match=message):
            plan_draws(make(), **{"n": 5} | settings)
