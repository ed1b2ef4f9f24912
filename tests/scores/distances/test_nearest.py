"""Nearest neighbours and histograms against brute force over the definitions."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from memorisk.runs.errors import InputError
from memorisk.scores.distances import MEASURES, fit_measure, histogram, nearest, pairwise
from tests.thorough import thorough

NAMES = sorted(MEASURES)
POSITIVE = ("braycurtis", "canberra", "jensenshannon")
KINDS = ("random", "tied", "sparse", "duplicated", "offset", "close", "uneven")
TYPES = ("float64", "float32", "float16", "bfloat16")


def fitted(name, r, domain="signed", p=3.0):
    binarise = "median" if name in ("dice", "matching") else None
    return fit_measure(name, r, domain=domain if name in POSITIVE else None, binarise=binarise, p=p)


def table(kind, n, d, rng):
    x = rng.normal(size=(n, d))
    if kind == "tied":
        x = rng.integers(-2, 3, (n, d)).astype(float)
    elif kind == "sparse":
        x *= rng.random((n, d)) < 0.2
    elif kind == "duplicated":
        x = x[rng.integers(0, n // 3 + 1, n)]
    elif kind == "offset":
        x += 1e4
    elif kind == "close":  # every distance the same in float32
        x = np.random.default_rng(d).normal(size=(1, d)) + 1e-7 * x
    elif kind == "uneven":
        x *= 10.0 ** rng.integers(-4, 4, (n, 1))
    x[:, 0] += np.arange(1, n + 1) % 5 + 0.5  # neither zero nor constant rows
    return x


def typed(x, kind):
    return torch.from_numpy(x).to(torch.bfloat16) if kind == "bfloat16" else x.astype(kind)


def brute(x, r, measure, k, groups=None):
    far = pairwise(x, r, measure)
    order = np.argsort(far, axis=1, kind="stable")
    if groups is not None:  # stable, those of the own group at the end
        same = groups[0][:, None] == groups[1][None]
        order = np.lexsort((np.broadcast_to(np.arange(len(r)), far.shape), far, same), axis=1)
    else:
        same = np.zeros(far.shape, bool)
    k = min(k, len(r))
    indices, distances = order[:, :k], np.take_along_axis(far, order[:, :k], 1)
    out = np.take_along_axis(same, indices, 1)
    return np.where(out, -1, indices), np.where(out, np.inf, distances)


def assert_agree(found, expected):
    np.testing.assert_array_equal(found.distances[:, : expected[1].shape[1]], expected[1])
    np.testing.assert_array_equal(found.indices[:, : expected[0].shape[1]], expected[0])
    assert (found.indices[:, expected[0].shape[1] :] == -1).all()


cases = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "type": st.sampled_from(TYPES),
        "n": st.integers(1, 40),
        "m": st.integers(2, 300),
        "d": st.one_of(st.integers(2, 20), st.integers(2, 700)),
        "k": st.one_of(st.just(1), st.integers(1, 12)),
        "block": st.sampled_from([None, 1, 7, 64]),
        "threads": st.sampled_from([None, 1, 3]),
        "seed": st.integers(0, 10**6),
        "p": st.sampled_from([1.0, 2.0, 2.5, 3.0, 4.0, 16.0, 17.0]),
        "domain": st.sampled_from(["signed", "shift", "softplus"]),
        "groups": st.booleans(),
    }
)


@pytest.mark.parametrize("name", NAMES)
@given(case=cases)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_equals_brute_force(name, case):
    rng = np.random.default_rng(case["seed"])
    n, m, d = case["n"], case["m"], case["d"]
    if name == "mahalanobis":
        m, d = min(m, 60), min(d, 80)
    if d * case["m"] > 40_000 or case["block"] == 1:
        m = min(m, 50)
    x, r = table(case["kind"], n, d, rng), table(case["kind"], m, d, rng)
    x[: n // 2] = r[rng.integers(0, m, n // 2)]
    x, r = typed(x, case["type"]), typed(r, case["type"])
    try:
        measure = fitted(name, r, case["domain"], case["p"])
        groups = (rng.integers(0, 3, n), rng.integers(0, 3, m)) if case["groups"] else None
        expected = brute(x, r, measure, case["k"], groups)
    except InputError as error:  # rounded to constant or zero rows, or to nothing that varies
        if not any(word in str(error) for word in ("constant", "zero", "var")):
            raise
        return
    found = nearest(x, r, measure, case["k"], exclude_same=groups, block=case["block"], threads=case["threads"])
    assert_agree(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_one_column(name):
    if name in ("correlation", "whitened"):
        pytest.skip("one column is constant, and unit rows of positive numbers are all 1")
    rng = np.random.default_rng(0)
    x, r = rng.random((30, 1)) + 0.1, rng.random((90, 1)) + 0.1
    r[40:60] = r[:20]
    measure = fitted(name, r)
    assert_agree(nearest(x, r, measure, 3), brute(x, r, measure, 3))


@pytest.mark.parametrize("name", NAMES)
def test_out_of_float32(name):
    """Rows that float32 cannot hold, or holds badly, are evaluated by definition."""
    rng = np.random.default_rng(1)
    plain = np.abs(rng.normal(size=(80, 10))) + 0.1
    for factor in (1e-90, 1e-40, 1e-25, 1e20, 1e40, 1e60):
        if name == "mahalanobis" and factor in (1e-90, 1e60):
            continue
        r = plain * factor
        few = r.copy()
        few[10:15] *= 1e-20
        few[20] *= 1e15
        few[:, 3] *= 1e-30
        for table_ in (r, few):
            measure = fitted(name, table_)
            x = table_[rng.integers(0, 80, 25)] * (1 + 1e-3 * rng.normal(size=(25, 10)))
            x[0] *= 1e19
            assert_agree(nearest(x, table_, measure, 4), brute(x, table_, measure, 4))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_changes_a_result(name):
    rng = np.random.default_rng(2)
    x, r = table("random", 150, 48, rng), table("duplicated", 400, 48, rng)
    x[:40] = r[:40]
    measure = fitted(name, r)
    plain = nearest(x, r, measure, 3)
    for block in (None, 1000, 97, 13):
        for number in (1, 2, 5):
            assert_agree(nearest(x, r, measure, 3, block=block, threads=number), (plain.indices, plain.distances))
    with threadpool_limits(1):
        assert_agree(nearest(x, r, measure, 3), (plain.indices, plain.distances))
    rows, columns = rng.permutation(len(x)), rng.permutation(len(r))
    mixed = nearest(x[rows], r[columns], measure, 3)
    np.testing.assert_array_equal(mixed.distances, plain.distances[rows])
    far = pairwise(x, r, measure)
    taken = np.take_along_axis(far, columns[mixed.indices[np.argsort(rows)]], 1)
    np.testing.assert_array_equal(taken, plain.distances)
    edges = np.unique(np.quantile(far, [0, 0.1, 0.3, 0.9]))
    first = histogram(x, r, measure, edges)
    np.testing.assert_array_equal(first, histogram(x[rows], r[columns], measure, edges, block=37, threads=2))


@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold(name):
    """Every value's bound, at every pair, is that of the key of the definition."""
    from memorisk.scores.distances.bounds import find_form
    from memorisk.scores.distances.definitions import key_of
    from memorisk.scores.distances.neighbours import evaluate
    from memorisk.scores.distances.rows import Rows, Team

    for number, kind in enumerate(KINDS):
        for type_ in ("float64", "float32"):
            rng = np.random.default_rng(number)
            d = 5 if number % 2 else 120
            x, r = (table(kind, size, d, rng).astype(type_) for size in (20, 60))
            x[:10] = r[:10]
            measure = fitted(name, r)
            left, right, workers = Rows(x, "queries"), Rows(r, "references"), Team(1, None)
            form = find_form(measure, right, left.exact)
            a, b = form.prepare(left, 0, 20, workers), form.prepare(right, 0, 60, workers)
            tile, beta = np.empty((20, 60), np.float32), form.betas(a, b)[:, None]
            evaluate(form, a, b, tile)
            value = np.maximum(tile.astype(float), 0) ** (1 / form.root)
            far = pairwise(x, r, measure)
            key = np.array([[key_of(v, form.multiplier, form.power) for v in row] for row in far])
            assert (np.abs(key - value) <= form.rho * value + beta + 1e-12 * key).all()
            if kind == "random":  # and is of use
                assert np.median(((form.rho * value + beta) / np.maximum(key, 1e-9))[10:]) < 0.01


def test_slack_of_entropies_is_what_is_added_up():
    """Of v, the shares times d / 2: terms of ``v log 2v`` below their mean, and their sum."""
    from memorisk.scores.distances.bounds import find_form
    from memorisk.scores.distances.rows import Rows, Team

    x = np.array([[97.0, 1, 1, 1], [1, 1, 1, 1], [4, 3, 2, 1]])
    rows, workers = Rows(x, "references"), Team(1, None)
    found = find_form(fit_measure("jensenshannon", x, domain="signed"), rows, True).prepare(rows, 0, 3, workers)
    v = 2 * x / x.sum(axis=1, keepdims=True)
    own = (v * np.log(2 * v)).sum(axis=1)
    np.testing.assert_allclose(found.own, own, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.slack, np.maximum(1 - 2 * v, 0).sum(axis=1) + own, rtol=1e-6, atol=1e-6)


def test_the_logarithm():
    from memorisk.scores.distances.bounds import LOG_ERROR, UNIT
    from memorisk.scores.distances.kernels import logarithms

    fractions = np.arange(0x3F000000, 0x40000000, dtype=np.int32).view(np.float32)  # all of [0.5, 2)
    found = np.empty_like(fractions)
    logarithms(fractions, found)
    exact = np.log(fractions.astype(np.float64))
    assert np.abs(found - exact).max() < 0.5 * LOG_ERROR
    wide = (2.0 ** np.random.default_rng(3).uniform(-99, 20, 100_000)).astype(np.float32)
    logarithms(wide, found[: len(wide)])
    exact = np.log(wide.astype(np.float64))
    assert (np.abs(found[: len(wide)] - exact) <= 4 * UNIT * np.abs(exact) + 0.5 * LOG_ERROR).all()


@pytest.mark.parametrize("k", range(1, 6))
def test_the_lowest_values_are_kept_in_order(k):
    from memorisk.scores.distances.definitions import _lower

    values = np.random.default_rng(k).integers(0, 20, 40).astype(np.float32)
    lowest = np.full(k, np.inf, np.float32)
    for number, value in enumerate(values, 1):
        if value < lowest[-1]:
            _lower(value, lowest)
        np.testing.assert_array_equal(lowest[:number], np.sort(values[:number])[:k])


def test_an_infinite_bound_leaves_all_to_the_definition():
    """Whatever the values, numbers or none."""
    from memorisk.scores.distances.bounds import find_form, kernel_arguments
    from memorisk.scores.distances.definitions import scan_histogram, scan_nearest
    from memorisk.scores.distances.rows import Rows

    rng = np.random.default_rng(12)
    x, r = rng.normal(size=(6, 4)), rng.normal(size=(150, 4))
    measure = fitted("cityblock", r)
    form = kernel_arguments(find_form(measure, Rows(r, "references"), False))
    tile = rng.choice(np.array([np.nan, np.inf, -np.inf, 0, 3], np.float32), (6, 150))
    betas, none = np.full(6, np.inf), np.empty(0, np.int64)
    far = pairwise(x, r, measure)
    edges, counts = np.quantile(far, [0, 0.2, 0.7, 0.9]), np.zeros(4, np.int64)
    scan_histogram(tile, betas, x, r, none, none, edges, counts, *form)
    np.testing.assert_array_equal(counts[:-1], by_numpy(far, edges))
    distances, indices = np.full((6, 3), np.inf), np.full((6, 3), -1)
    scan_nearest(tile, betas, np.full(6, np.inf, np.float32), x, r, 0, none, none, distances, indices, *form)
    np.testing.assert_array_equal(distances, np.sort(far, axis=1)[:, :3])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [*KINDS[:2], *map(thorough, KINDS[2:])])
def test_histograms(name, kind):
    rng = np.random.default_rng(4)
    x, r = table(kind, 37, 24, rng), table(kind, 90, 24, rng)
    x[:9] = r[:9]
    measure = fitted(name, r)
    far = pairwise(x, r, measure)
    values = np.unique(far)
    some = rng.choice(values, min(12, len(values)), replace=False)  # edges that are distances
    groups = rng.integers(0, 5, 37), rng.integers(0, 5, 90)
    apart = groups[0][:, None] != groups[1][None]
    for edges in (np.unique(np.r_[some, values[-1], 0]), np.linspace(-1, values[-1] / 2 + 1e-9, 7), [0.0, np.inf]):
        np.testing.assert_array_equal(histogram(x, r, measure, edges, block=31), by_numpy(far, edges))
        np.testing.assert_array_equal(histogram(x, r, measure, edges, exclude_same=groups), by_numpy(far[apart], edges))


def by_numpy(far, edges):
    return np.histogram(far, edges)[0]


def test_groups():
    rng = np.random.default_rng(5)
    r = table("random", 30, 8, rng)
    measure = fitted("euclidean", r)
    names = np.array(["a", "b", "c"])[np.arange(30) % 3]
    assert_agree(nearest(r, r, measure, 4, exclude_same=(names, names)), brute(r, r, measure, 4, (names, names)))
    alone = nearest(r, r, measure, 2, exclude_same=(np.zeros(30), np.r_[np.zeros(29), 1]))
    assert (alone.indices == [29, -1]).all()
    assert np.isinf(alone.distances[:, 1]).all()
    none = nearest(r, r, measure, 2, exclude_same=(np.zeros(30), np.zeros(30)))
    assert (none.indices == -1).all()
    assert np.isinf(none.distances).all()
    for groups, said in (
        ((names,), "is not a pair"),
        ((names, names[:3]), "one a row"),
        ((names, np.zeros(30)), "text"),
    ):
        with pytest.raises(InputError, match=said):
            nearest(r, r, measure, exclude_same=groups)


def test_refusals():
    r = table("random", 30, 8, np.random.default_rng(6))
    measure = fitted("euclidean", r)
    bad = r.copy()
    bad[[2, 5]] = np.inf
    with pytest.raises(InputError, match="rows 2, 5 of the queries hold NaN, inf"):
        nearest(bad, r, measure)
    with pytest.raises(InputError, match="rows 2, 5 of the references hold NaN, inf"):
        histogram(r, bad, measure, [0, 1])
    for k in (0, -1, 1.5, "a"):
        with pytest.raises(InputError, match="k is"):
            nearest(r, r, measure, k)
    with pytest.raises(InputError, match="references are empty"):
        nearest(r, r[:0], measure)
    with pytest.raises(InputError, match="must increase"):
        histogram(r, r, measure, [0, 1, 1])
    assert nearest(r[:0], r, measure, 3).indices.shape == (0, 3)
    zero = r.copy()
    zero[7] = 0
    with pytest.raises(InputError, match="row 7 of the queries are zero"):
        nearest(zero, r, fitted("cosine", r))


def test_clipped_queries_are_counted():
    r = table("random", 30, 8, np.random.default_rng(7))
    x = r[:5].copy()
    x[0, :3] = -100
    assert nearest(x, r, fitted("braycurtis", r, "shift")).clipped == 3
    assert nearest(x, r, fitted("euclidean", r)).clipped == 0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_references_that_are_all_the_same():
    r, x = np.ones((5, 3)), np.array([[1.0, 1, 1], [2, 1, 1]])
    found = nearest(x, r, fit_measure("euclidean", r), 2)
    np.testing.assert_array_equal(found.distances, [[0, 0], [1, 1]])
    np.testing.assert_array_equal(found.indices, [[0, 1], [0, 1]])


BOUNDS = """
import numpy as np
from memorisk.scores.distances import kernels as k

rng = np.random.default_rng(0)
for m, n in ((1, 1), (3, 2), (2, 3), (1, 5), (2, 6), (3, 7)):
    x, y = (rng.random((rows, 5), np.float32) + np.float32(0.1) for rows in (m, n))
    q, r = (one.astype(float) for one in (x[:, None], y[None]))
    terms, off = (lambda z: (z * np.log(z)).sum(2)), abs(q - r)
    tile, own = np.empty((m, n), np.float32), (terms(q)[:, 0].astype(np.float32), terms(r)[0].astype(np.float32))
    for fill, told, expected in (
        (k.absolute_sums, (), off.sum(2)),
        (k.largest, (), off.max(2)),
        (k.cubes, (), (off**3).sum(2)),
        (k.powers, (5,), (off**5).sum(2)),
        (k.shares, (), (off / (q + r)).sum(2)),
        (k.shares_of_sums, (), off.sum(2) / (off + q + r).sum(2)),
        (k.entropies, own, (terms(q) + terms(r) - terms(q + r)) / 5),
    ):
        tile[:] = np.nan
        fill(x, y, *told, tile)
        np.testing.assert_allclose(tile, expected, rtol=1e-4, atol=1e-5, err_msg=fill.__name__)
"""


@pytest.mark.thorough
def test_kernels_read_nothing_beyond_the_rows(tmp_path):
    told = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", BOUNDS], env=told, check=True)


def test_copies_in_a_far_cluster():
    """Norm 1e4 and a common offset: the matrix-product form cancels, the distances do not."""
    rng = np.random.default_rng(8)
    r = (1e4 * rng.normal(size=(1, 256)) + rng.normal(size=(300, 256))).astype(np.float32)
    for name in ("euclidean", "sqeuclidean", "cosine", "correlation", "seuclidean", "mahalanobis"):
        found = nearest(r, r, fitted(name, r))
        np.testing.assert_array_equal(found.indices[:, 0], np.arange(300))
        assert (found.distances == 0).all()


def test_mapped_and_loaded(tmp_path):
    from memorisk.scores.distances import FittedMeasure

    r = table("random", 60, 20, np.random.default_rng(10))
    np.save(tmp_path / "r.npy", r)
    mapped = np.load(tmp_path / "r.npy", mmap_mode="r")
    for name in NAMES:
        measure = fitted(name, mapped, "shift")
        measure.save(tmp_path / "m")
        loaded = FittedMeasure.load(tmp_path / "m")
        found = nearest(mapped[5:9], mapped, loaded, 2)
        assert_agree(found, brute(r[5:9], r, measure, 2))
        assert_agree(nearest(r[5:9].astype(">f8"), np.asfortranarray(r), measure, 2), (found.indices, found.distances))


def test_memory_is_that_of_blocks(tmp_path):
    peaks = []
    rng = np.random.default_rng(9)
    for n in (40_000, 120_000):
        r = np.lib.format.open_memmap(tmp_path / f"{n}.npy", mode="w+", dtype=np.float32, shape=(n, 64))
        r[:] = rng.normal(size=(n, 64))
        measure = fitted("cityblock", r)
        nearest(r[:20], r[:50], measure, threads=2)
        tracemalloc.start()
        found = nearest(r[:500], r, measure, threads=2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (found.indices[:, 0] == np.arange(500)).all()
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 100 * 2**20


@pytest.mark.parametrize("name", NAMES)
def test_planted_copies_are_at_rank_one(name):
    """A check of the measure's direction, its domain and its fit; exact copies are at distance 0, too."""
    rng = np.random.default_rng(0)
    references = rng.normal(size=(200, 64))
    copies = references[:50]
    measure = fitted(name, references, domain="shift")
    exact = nearest(copies, references, measure)
    changed = nearest(copies + 0.01 * rng.normal(size=copies.shape), references, measure)
    for found in (exact, changed):
        assert (found.indices[:, 0] == np.arange(50)).all()
    assert (exact.distances == 0).all()
