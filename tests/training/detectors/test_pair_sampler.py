"""Which pairs are drawn: never an image with itself, each identity as often, small data sets more than their share."""

from collections import Counter

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.training.detectors.lcmem.sampler import PairSampler


def sampler(sizes: list[int], sets: list[str] | None = None, **settings: object) -> PairSampler:
    """Identities of so many images each; rows begin at 100 and are shuffled."""
    identity = np.repeat([f"p{i}" for i in range(len(sizes))], sizes)
    dataset = None if sets is None else np.repeat(sets, sizes)
    order = np.random.default_rng(1).permutation(len(identity))
    pixels = np.array([f"h{i}" for i in range(len(identity))])
    chosen = None if dataset is None else dataset[order]
    return PairSampler(100 + np.arange(len(identity)), identity[order], pixels, chosen, **settings)  # pyright: ignore


def drawn(one: PairSampler, pairs: int = 400, batch: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batches = one.batches(0, *one.plan(pairs, batch))
    return tuple(np.concatenate([getattr(b, name) for b in batches]) for name in ("first", "second", "positive"))  # pyright: ignore


def identity_of(one: PairSampler, rows: np.ndarray) -> np.ndarray:
    return np.asarray(one.identity)[rows - 100]


@pytest.mark.parametrize("protocol", ["corrected", "paper"])
def test_positives_are_two_files_of_one_identity_negatives_of_two(protocol: str) -> None:
    one = sampler([30, 2, 2, 5, 1, 1], protocol=protocol)
    first, second, positive = drawn(one)
    same = identity_of(one, first) == identity_of(one, second)
    np.testing.assert_array_equal(same, positive)
    assert (first != second).all()
    assert positive.mean() == 0.5


def test_a_patient_with_many_images_is_not_the_result() -> None:
    sizes = [60, 2, 2, 2, 2]
    counted = {}
    for protocol in ("corrected", "paper"):
        one = sampler(sizes, protocol=protocol)
        first, _, positive = drawn(one, pairs=1000, batch=10)
        counted[protocol] = Counter(identity_of(one, first[positive]).tolist())
    assert set(counted["corrected"].values()) == {100}
    assert counted["paper"]["p0"] > 490  # 1,770 of 1,774 pairs


def test_images_without_a_sibling_are_negatives_only_until_copies_are_wanted() -> None:
    sizes = [3, 3, 1, 1]
    one = sampler(sizes)
    first, second, positive = drawn(one)
    alone = {"p2", "p3"}
    assert alone & set(identity_of(one, first[positive]).tolist()) == set()
    assert alone <= set(identity_of(one, np.concatenate([first[~positive], second[~positive]])).tolist())
    assert not one.copies_needed
    copying = sampler(sizes, copies=True)
    batches = copying.batches(0, *copying.plan(400, 20))
    copied = np.concatenate([b.first[b.copied] for b in batches])
    assert set(identity_of(copying, copied).tolist()) == alone
    assert copying.copies_needed


def test_a_data_set_without_identities_is_met_in_copies() -> None:
    one = sampler([1, 1, 1, 3, 3], ["a", "a", "a", "b", "b"])
    batches = one.batches(0, *one.plan(200, 10))
    copied = np.concatenate([b.first[b.copied] for b in batches])
    assert set(identity_of(one, copied).tolist()) == {"p0", "p1", "p2"}


def test_small_data_sets_are_oversampled_and_say_nothing_about_the_answer() -> None:
    sizes = [2] * 104
    sets = ["large"] * 100 + ["small"] * 4
    one = sampler(sizes, sets)
    first, second, positive = drawn(one, pairs=1200, batch=40)
    small = np.array([int(name[1:]) >= 100 for name in identity_of(one, first)])
    assert small[positive].mean() == pytest.approx(1 / 6, abs=0.005)  # the root of 4 against that of 100
    assert small[~positive].mean() == small[positive].mean()
    other = np.array([int(name[1:]) >= 100 for name in identity_of(one, second)])
    assert (small != other)[~positive].mean() == pytest.approx(0.1, abs=0.04)
    paper = sampler(sizes, sets, protocol="paper")
    first, second, positive = drawn(paper, pairs=1200, batch=40)
    away = np.array([int(name[1:]) >= 100 for name in identity_of(paper, second)])
    assert away[~positive].mean() == pytest.approx(4 / 104, abs=0.03)


def test_identical_images_are_one_file_and_never_a_negative() -> None:
    identity = np.array(["a", "a", "a", "b", "b", "c"])
    pixels = np.array(["1", "1", "2", "2", "3", "1"])  # a and b share an image, and so do a and c
    one = PairSampler(np.arange(6), identity, pixels)
    for epoch in range(20):
        for found in one.batches(epoch, *one.plan(40, 4)):
            assert (pixels[found.first] != pixels[found.second]).all()


def test_batches_shrink_to_the_identities_and_are_never_of_one() -> None:
    one = sampler([3, 3, 3, 1])
    assert one.plan(100, 512) == (17, 6)
    assert all(len(found) == 6 for found in one.batches(0, 17, 6))
    assert sampler([2, 1]).plan(1, 64) == (1, 2)


def test_draws_derive_from_seed_and_epoch() -> None:
    one, again, other = sampler([3] * 9), sampler([3] * 9), sampler([3] * 9, seed=1)
    rows = [tuple(found.batches(4, 3, 8)[2].first.tolist()) for found in (one, again, other)]
    assert rows[0] == rows[1] != rows[2]
    assert tuple(one.batches(5, 3, 8)[2].first.tolist()) != rows[0]


def test_nobody_to_tell_apart_is_refused() -> None:
    with pytest.raises(InputError, match="all training images are of one identity"):
        sampler([4])
    with pytest.raises(InputError, match="rows need as many identities"):
        PairSampler(np.arange(2), np.array(["a"]), np.array(["1", "2"]))
    twins = np.array(["1", "1", "2"])
    with pytest.raises(InputError, match="2 rows"):
        PairSampler(np.arange(2), np.array(["a", "b"]), twins)
