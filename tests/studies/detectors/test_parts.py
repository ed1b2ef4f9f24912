"""Who is in which part: patients whole, pools equal, everybody as likely everywhere."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError
from memorisk.studies.detectors.pools import NULLS, PARTS, POOLS, divide
from tests.studies.detectors.conftest import patients

SHARES = (0.4, 0.15, 0.15, 0.3)


def stored(folder: Path) -> ImageStore:
    options = ImageOptions(group_from=r"(p\d+)_")
    return build_store(load_manifest(folder, options), options, processes=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    return stored(patients(tmp_path_factory.mktemp("parts") / "set"))


def test_a_patient_is_in_one_part_and_pools_are_equal(store: ImageStore) -> None:
    parts = divide(store, SHARES, seed=3, specificity=0.8)
    held = [set(parts.groups[parts.rows(name)]) for name in PARTS]
    assert sum(len(h) for h in held) == len(set().union(*held)) == 90
    assert [len(h) for h in held] == [36, 14, 13, 14, 13]
    sizes = {len(parts.pools[pool]) for pool in POOLS}
    assert sizes == {min(len(parts.rows(pool)) for pool in POOLS)}
    for pool in POOLS:
        assert set(parts.pools[pool]) <= set(parts.rows(pool))
        assert not set(parts.groups[parts.rows(NULLS[pool])]) & set(parts.groups[parts.rows(pool)])


def test_the_null_that_judges_is_not_the_one_that_chose() -> None:
    assert NULLS["test"] not in (NULLS["train"], NULLS["validation"], *POOLS)


def test_the_seed_alone_decides(store: ImageStore) -> None:
    one, same, other = (divide(store, SHARES, seed=seed, specificity=0.8) for seed in (0, 0, 1))
    assert (one.part == same.part).all()
    assert all((one.pools[pool] == same.pools[pool]).all() for pool in POOLS)
    assert (one.part != other.part).any()


def test_every_patient_is_as_likely_in_every_part(store: ImageStore) -> None:
    """Also those with more images: a null of small patients would be no null of large ones."""
    found = np.stack([divide(store, SHARES, seed=seed, specificity=0.8).part == "test" for seed in range(200)])
    several = np.array([int(g[1:]) % 2 == 1 for g in store.manifest.groups])
    one_each = np.unique(store.manifest.groups.astype(str), return_index=True)[1]
    for kind in (several, ~several):
        rows = one_each[kind[one_each]]
        count = int(found[:, rows].sum())
        assert stats.binomtest(count, 200 * len(rows), 13 / 90).pvalue > 0.001


def test_identical_images_keep_their_patients_together(tmp_path: Path) -> None:
    folder = patients(tmp_path / "set")
    (folder / "p001_0.png").write_bytes((folder / "p040_0.png").read_bytes())
    twins = stored(folder)
    rows = np.flatnonzero(np.isin(twins.manifest.groups, ["p001", "p040"]))
    for seed in range(20):
        assert len(set(divide(twins, SHARES, seed=seed, specificity=0.8).part[rows])) == 1
    parts = divide(twins, SHARES, seed=0, specificity=0.8)
    same = np.flatnonzero(twins.pixel_hashes == twins.pixel_hashes[rows[0]])
    assert parts.same_image(same[:1], same[1:2]).all()
    assert not parts.same_image(same[:1], same[1:2] + 1).any()


def test_images_of_one_grey_level_are_left_out(tmp_path: Path) -> None:
    shown = stored(patients(tmp_path / "set", blank=4))
    parts = divide(shown, SHARES, seed=0, specificity=0.8)
    out = np.flatnonzero(parts.part == "")
    assert set(shown.manifest.groups[out]) == {"p086", "p087", "p088", "p089"}
    assert not set(out) & set(parts.copied)


@pytest.mark.parametrize(
    ("shares", "specificity", "said"),
    [
        (SHARES, 0.95, "specificity 0.95 needs 38 of them"),
        ((0.66, 0.01, 0.03, 0.3), 0.8, "1 of 90 patients for the validation part"),
    ],
)
def test_too_few_patients_are_refused(store: ImageStore, shares: tuple, specificity: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        divide(store, shares, seed=0, specificity=specificity)
