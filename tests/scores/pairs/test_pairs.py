"""The head over all pairs against brute force over its definition."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorisk.runs.errors import InputError
from memorisk.scores.pairs import Job, above, histogram, jobs, merge, rowwise, score, search, survey, top

KINDS = ("features", "tied", "duplicated", "saturated", "close", "normal", "offset", "uneven")
WEIGHTS = ("negative", "signed", "positive", "zeros", "few", "equal")


def table(kind, n, d, rng):
    x = rng.random((n, d))
    if kind == "tied":
        x = rng.integers(0, 3, (n, d)) / 2
    elif kind == "duplicated":
        x = x[rng.integers(0, n // 3 + 1, n)]
    elif kind == "saturated":
        x = (x > 0.5) * 1.0
    elif kind == "close":  # every logit the same in float32
        x = np.random.default_rng(d).random((1, d)) + 1e-8 * x
    elif kind == "normal":
        x = rng.normal(size=(n, d))
    elif kind == "offset":
        x += 1e4
    elif kind == "uneven":
        x *= 10.0 ** rng.integers(-6, 5, (n, 1))
    return x


def head(kind, d, rng):
    w = rng.normal(size=d)
    if kind == "negative":
        w = -np.abs(w)
    elif kind == "positive":
        w = np.abs(w)
    elif kind == "zeros":
        w[:] = 0
    elif kind == "few":
        w[rng.random(d) < 0.8] = 0
    elif kind == "equal":
        w[:] = -1
    return w


def naive(u, v, w, b):
    """[n, m] by broadcasting."""
    u, v = np.asarray(u, np.float64), np.asarray(v, np.float64)
    return np.stack([b + (np.abs(row - v) * w).sum(axis=1) for row in u])


def allowed(n, m, groups, whole):
    """Which pairs count: [n, m]."""
    keep = np.ones((n, m), bool) if groups is None else groups[0][:, None] != groups[1][None]
    return keep if whole else np.triu(keep, 1)


def best(scores, keep, k):
    """Rows and logits by sorting."""
    order = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores, ~keep), axis=1)[:, :k]
    kept = np.take_along_axis(keep, order, 1)
    indices = np.where(kept, order, -1)
    logits = np.where(kept, np.take_along_axis(scores, order, 1), -np.inf)
    short = ((0, 0), (0, k - order.shape[1]))
    return np.pad(indices, short, constant_values=-1), np.pad(logits, short, constant_values=-np.inf)


def pairs_above(scores, keep, threshold):
    """Pairs in the order of the answer."""
    i, j = np.nonzero(keep & (scores >= threshold))
    order = np.lexsort((j, i, -scores[i, j]))
    return i[order], j[order], scores[i, j][order]


def assert_same(a, b):
    for one, other in ((a.pairs, b.pairs), (a.top, b.top)):
        for name in vars(one):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(a.counts, b.counts)


cases = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "weights": st.sampled_from(WEIGHTS),
        "type": st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
        "n": st.integers(1, 150),
        "m": st.one_of(st.none(), st.integers(1, 300)),
        "d": st.one_of(st.integers(1, 40), st.sampled_from([64, 100, 512, 2048])),
        "k": st.one_of(st.just(1), st.integers(1, 12)),
        "bias": st.sampled_from([0.0, 4.5, -1e3, 1e14]),
        "block": st.sampled_from([None, 1, 7, 64]),
        "threads": st.sampled_from([1, 3]),
        "share": st.sampled_from([0.0, 0.5, 0.95, 1.0]),
        "limit": st.sampled_from([None, 0, 1, 5, 100]),
        "groups": st.booleans(),
        "rows": st.sampled_from([1000, 40]),
        "seed": st.integers(0, 10**6),
    }
)


@given(case=cases)
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_equals_brute_force(case):
    rng = np.random.default_rng(case["seed"])
    n, m, d = case["n"], case["m"], case["d"]
    if d > 100 or case["block"] == 1:
        n, m = min(n, 40), m and min(m, 60)
    u, w, b = table(case["kind"], n, d, rng), head(case["weights"], d, rng), case["bias"]
    v = None if m is None else table(case["kind"], m, d, rng)
    if v is not None:
        v[: m // 2] = u[rng.integers(0, n, m // 2)]
    typed = torch.bfloat16 if case["type"] == "bfloat16" else case["type"]
    u, v = (x if x is None else torch.from_numpy(x).to(typed) if typed is torch.bfloat16 else x.astype(typed)
            for x in (u, v))  # fmt: skip
    scores, m = score(u, v, w, b), n if m is None else m
    other = u if v is None else v
    plain = naive(*(x.double().numpy() if typed is torch.bfloat16 else x for x in (u, other)), w, b)
    size = naive(*(x.double().numpy() if typed is torch.bfloat16 else x for x in (u, other)), np.abs(w), abs(b)).max()
    np.testing.assert_allclose(scores, plain, rtol=0, atol=1e-13 * size)
    groups = (rng.integers(0, 3, n), rng.integers(0, 3, m)) if case["groups"] else None
    if groups and v is None:
        groups = (groups[0], groups[0])
    keep = allowed(n, m, groups, v is not None)
    threshold = np.quantile(scores, case["share"])
    edges = np.unique(np.quantile(scores, [0.1, 0.3, 0.31, 0.8, 0.99]))
    edges = edges if len(edges) > 1 else np.array([edges[0], edges[0] + 1.0])
    told = {"threshold": threshold, "limit": case["limit"], "k": case["k"], "edges": edges, "exclude_same": groups}
    told |= {"block": case["block"], "threads": case["threads"]}
    found = merge([survey(u, v, w, b, job=job, **told) for job in jobs(n, case["rows"])])
    i, j, logits = pairs_above(scores, keep, threshold)
    assert found.pairs.count == len(i)
    for name, expected in (("first", i), ("second", j), ("logit", logits)):
        np.testing.assert_array_equal(getattr(found.pairs, name), expected[: case["limit"]])
    both = keep if v is not None else keep | keep.T
    indices, nearest = best(scores, both, case["k"])
    np.testing.assert_array_equal(found.top.indices, indices)
    np.testing.assert_array_equal(found.top.logits, nearest)
    np.testing.assert_array_equal(found.counts, np.histogram(scores[keep], edges)[0])
    assert found.work.pairs == (n * m if v is not None else n * (n - 1) // 2)


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(3)
    u = rng.random((700, 96)).astype(np.float32)
    u[300:340] = u[:40]
    u[400:420] = u[:20] + rng.normal(scale=1e-3, size=(20, 96)).astype(np.float32)
    return u, head("signed", 96, rng) - 0.5, 2.0


def test_nothing_changes_a_result(features):
    u, w, b = features
    scores = score(u, None, w, b)
    told = {"threshold": np.quantile(scores, 0.97), "limit": 500, "k": 5, "edges": np.linspace(-30, 3, 40)}
    plain = survey(u, None, w, b, threads=1, **told)
    for block in (None, 1000, 97, 13):
        for threads in (1, 2, 5):
            assert_same(survey(u, None, w, b, block=block, threads=threads, **told), plain)
    parts = [survey(u, None, w, b, job=job, **told) for job in jobs(len(u), 150)]
    assert_same(merge(parts), plain)
    assert_same(merge(parts[::-1]), plain)
    assert_same(survey(torch.from_numpy(u), None, torch.from_numpy(w)[None], torch.tensor([b]), **told), plain)


def test_order_of_rows_changes_no_logit(features):
    u, w, b = features
    order = np.random.default_rng(0).permutation(len(u))
    plain, moved = top(u, None, w, b, 5), top(u[order], None, w, b, 5)
    np.testing.assert_array_equal(moved.logits, plain.logits[order])
    columns = np.arange(u.shape[1])[::-1]
    np.testing.assert_allclose(top(u[:, columns], None, w[columns], b, 5).logits, plain.logits, rtol=1e-12, atol=1e-12)


def test_both_ways_round(features):
    u, w, b = features
    assert np.array_equal(score(u, u, w, b), score(u, u, w, b).T)
    edges = np.linspace(-20, 3, 30)
    whole, half = histogram(u, u, w, b, edges), histogram(u, None, w, b, edges)
    own = np.histogram(np.full(len(u), b), edges)[0]  # every row and itself
    np.testing.assert_array_equal(whole, 2 * half + own)
    listed, once = above(u, u, w, b, 0.0), above(u, None, w, b, 0.0)
    assert listed.count == 2 * once.count + len(u) > len(u)
    other = top(u, u, w, b, 3, exclude_same=(np.arange(len(u)), np.arange(len(u))))
    np.testing.assert_array_equal(top(u, None, w, b, 3).indices, other.indices)


def test_rows_beside_each_other_are_the_diagonal(monkeypatch):
    rng = np.random.default_rng(9)
    u, v, w = rng.random((23, 6)), rng.random((23, 6)), rng.normal(size=6)
    expected = np.diag(naive(u, v, w, 0.5))
    for rows in (1000, 5):
        monkeypatch.setattr(search, "rows_per_block", lambda d, rows=rows: rows)
        np.testing.assert_allclose(rowwise(u, v, w, 0.5), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(rowwise(u, v, w, 0.5), rowwise(v, u, w, 0.5))


def test_rows_in_an_awkward_order():
    """Logits that only rise from row to row make no list wrong."""
    u = np.linspace(0, 1, 900)[:, None] * np.ones((1, 8))
    w = -np.ones(8)
    scores = score(u, None, w, 0.0)
    indices, logits = best(scores, ~np.eye(len(u), dtype=bool), 4)
    found = top(u, None, w, 0.0, 4)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.logits, logits)


@pytest.mark.parametrize("factor", [1e-160, 1e-30, 1e30, 1e90])
def test_extreme_sizes(factor):
    rng = np.random.default_rng(1)
    u = rng.random((120, 9)) * factor
    u[5] *= 1e-9
    u[:, 2] *= 1e-20
    w, scores = head("signed", 9, rng), None
    for weight, bias in ((w, 0.0), (w * 1e-90, 0.0), (w * 1e90, 3.0)):
        scores = score(u, None, weight, bias)
        keep = allowed(120, 120, None, False)
        threshold = np.quantile(scores, 0.9)
        found = survey(u, None, weight, bias, threshold=threshold, k=3)
        np.testing.assert_array_equal(found.pairs.logit, pairs_above(scores, keep, threshold)[2])
        np.testing.assert_array_equal(found.top.indices, best(scores, keep | keep.T, 3)[0])


def test_columns_of_all_sizes():
    """Columns beside which others vanish."""
    u = np.random.default_rng(2).random((80, 3)) * [1e100, 1e-250, 0.0]
    w = np.array([1.0, -1.0, 5.0])
    scores = score(u, None, w, 0.0)
    found = survey(u, None, w, 0.0, threshold=1e99, k=2)
    np.testing.assert_array_equal(found.top.indices, best(scores, ~np.eye(80, dtype=bool), 2)[0])
    assert found.pairs.count == (np.triu(scores, 1) >= 1e99).sum() > 0


@pytest.mark.parametrize("threshold", [-np.inf, np.inf, 1e300, -1e300])
def test_extreme_thresholds(features, threshold):
    u, w, b = features
    found = above(u[:50], None, w, b, threshold, limit=10)
    assert found.count == (50 * 49 // 2 if threshold < 0 else 0)
    np.testing.assert_array_equal(
        found.logit, np.sort(score(u[:50], None, w, b)[np.triu_indices(50, 1)])[::-1][: len(found.logit)]
    )


def test_a_short_list_takes_little_work(features):
    """Pairs that are surely above, but not among those listed, are counted without the definition."""
    u, w, b = features
    whole = survey(u, None, w, b, threshold=-np.inf, limit=None)
    assert whole.pairs.count == whole.work.evaluated == len(whole.pairs.logit) == 700 * 699 // 2
    for limit, share in ((0, 0.001), (20, 0.5)):
        short = survey(u, None, w, b, threshold=-1e4, limit=limit, block=64, threads=2)
        assert short.pairs.count == whole.pairs.count
        assert short.work.evaluated < share * whole.pairs.count
        for name in ("first", "second", "logit"):
            np.testing.assert_array_equal(getattr(short.pairs, name), getattr(whole.pairs, name)[:limit])


def test_one_row_and_none(features):
    u, w, b = features
    assert above(u[:1], None, w, b, -np.inf).count == 0
    assert top(u[:1], None, w, b, 2).indices.tolist() == [[-1, -1]]
    assert top(u[:0], u, w, b, 2).indices.shape == (0, 2)
    assert top(u[:2], u[:0], w, b).indices.tolist() == [[-1], [-1]]


def test_a_memory_map(features, tmp_path):
    u, w, b = features
    np.save(tmp_path / "u.npy", u)
    mapped = np.load(tmp_path / "u.npy", mmap_mode="r")
    np.testing.assert_array_equal(top(mapped, None, w, b, 3).indices, top(u, None, w, b, 3).indices)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"u": np.array([[0.1, np.nan], [0, 1]])}, "row 0 of the first vectors"),
        ({"v": np.array([[0.1, 0.2], [np.inf, 1], [-np.inf, 1]])}, "rows 1, 2 of the second vectors"),
        ({"weight": np.ones(3)}, r"shape \(3,\) for vectors of 2 numbers"),
        ({"weight": np.array([1, np.nan])}, "weights hold NaN"),
        ({"weight": "many"}, "weights are not numbers"),
        ({"bias": np.inf}, "bias hold NaN"),
        ({"bias": [1.0, 2.0]}, "2 biases"),
        ({"v": np.ones((3, 5))}, "vectors of 2 numbers and v of 5"),
        ({"u": np.ones(3)}, "shape"),
        ({"u": np.array([["a", "b"]])}, "type"),
        ({"threshold": np.nan}, "threshold"),
        ({"threshold": None}, "no query for the pairs"),
        ({"k": 0}, "k is 0"),
        ({"limit": -1}, "limit is -1"),
        ({"edges": [1.0, 1.0]}, "increase"),
        ({"threads": 0}, "threads"),
        ({"job": Job(0, 9)}, "rows 0 to 9 of 2"),
        ({"exclude_same": np.zeros(2)}, "pair"),
        ({"exclude_same": (np.zeros(5), np.zeros(2))}, "5.*groups"),
    ],
)
def test_refusals(change, words):
    told = {"u": np.ones((2, 2)), "v": np.ones((2, 2)), "weight": np.ones(2), "bias": 0.0, "threshold": 0.0} | change
    with pytest.raises(InputError, match=words) as caught:
        survey(told.pop("u"), told.pop("v"), told.pop("weight"), told.pop("bias"), **told)
    assert "\n" not in str(caught.value)


def test_answers_to_different_questions_do_not_merge(features):
    u, w, b = features
    with pytest.raises(InputError, match="different questions"):
        merge([survey(u, None, w, b, k=1), survey(u, None, w, b, k=2)])
    with pytest.raises(InputError, match="no answers"):
        merge([])


def test_memory_is_bounded(tmp_path):
    """Twelve times the rows, mapped, take no more memory than a few blocks and the answer."""
    code = """
import sys, numpy as np, resource
from memorisk.scores.pairs import survey
u = np.load(sys.argv[1], mmap_mode="r")
w = -np.ones(64)
def peak(): return int([l for l in open("/proc/self/status") if l.startswith("RssAnon")][0].split()[1])
survey(u[:3000], None, w, 3.0, threshold=2.9, k=3, edges=[-9, 0, 3], threads=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
survey(u, u[:2000], w, 3.0, threshold=2.9, k=3, edges=[-9, 0, 3], threads=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    np.save(tmp_path / "u.npy", np.random.default_rng(0).random((36_000, 64), dtype=np.float32))
    told = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "u.npy")], env=told, capture_output=True, text=True, check=True
    ).stdout
    assert int(out) < 60 * 1024  # kB: the table itself is 9 MiB mapped, in float64 18 MiB, all logits would be 576 MiB


@pytest.mark.parametrize("kind", ["negative", "signed"])
def test_pruning_loses_nothing(kind):
    """Identities apart from each other: most pairs are given up after few columns, none that matters."""
    rng = np.random.default_rng(5)
    u = np.clip(rng.random((60, 256))[rng.integers(0, 60, 900)] + rng.normal(scale=0.02, size=(900, 256)), 0, 1)
    w = head(kind, 256, rng)
    w[w > 0] *= 0.05
    scores, keep = score(u, None, w, 4.0), allowed(900, 900, None, False)
    for told in ({"threshold": -10.0}, {"k": 3}, {"threshold": 0.0, "k": 2}):
        found = survey(u, None, w, 4.0, block=300, **told)
        assert found.work.columns < (0.4 if "k" not in told else 0.9) * found.work.pairs * 256
        assert found.work.evaluated < 0.2 * found.work.pairs
        if "threshold" in told:
            i, j, _ = pairs_above(scores, keep, told["threshold"])
            np.testing.assert_array_equal(found.pairs.first, i)
            np.testing.assert_array_equal(found.pairs.second, j)
            assert 0 < len(i) < 0.1 * keep.sum()
        if "k" in told:
            np.testing.assert_array_equal(found.top.indices, best(scores, keep | keep.T, told["k"])[0])


def cell(a, b, seed):
    """Two rows and four columns whose sums over the first 32 of 64 columns are largest at (a, b); then they fall."""
    rng = np.random.default_rng(seed)
    whole = np.repeat([3, -2], 32).astype(np.int16)
    x, y = (rng.integers(-9, 9, (n, 64)).astype(np.int16) for n in (2, 4))
    x[a, :32], y[b, :32] = x[a, :32] - 40, y[b, :32] + 60
    stages = np.array([32, 64])
    own_x, own_y = (np.stack([(rows * whole)[:, :s].sum(1) for s in stages], axis=1, dtype=np.int32) for rows in (x, y))
    sums = [(np.abs(x[:, None, :s] - y[None, :, :s]) * whole[:s].astype(int)).sum(2) for s in stages]
    return (x, y, own_x, own_y, np.zeros((2, 2), np.int32), whole, stages), *sums


@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_that_reaches_a_floor_is_added_up(side):
    """Of the eight pairs of a cell each alone, at the floor of its row (0) or column (1), and one below it."""
    from memorisk.scores.pairs.kernels import NONE, shares_needed, signed_sums
    from memorisk.scores.pairs.scans import MOST

    for place in range(8):
        a, b = divmod(place, 4)
        tables, early, late = cell(a, b, place)
        for over in (0, 1):
            floors, tile, shares = (
                (np.full(2, MOST, np.int32), np.full(4, MOST, np.int32)),
                np.empty((2, 4), np.int32),
                np.empty(2),
            )
            floors[side][(a, b)[side]] = early[a, b] + over
            assert signed_sums(*tables, 0, *floors, tile) == 8 * (1 - over)
            np.testing.assert_array_equal(tile, np.full((2, 4), NONE) if over else late)
            shares_needed(*tables, *floors, shares)
            assert shares[0] == 1 - over


def test_of_one_row_nothing_is_sampled():
    from memorisk.scores.pairs.kernels import shares_needed
    from memorisk.scores.pairs.scans import MOST

    x, y, own_x, own_y, rest, *others = cell(0, 0, 0)[0]
    shares = np.zeros(2)
    shares_needed(
        x[:1], y, own_x[:1], own_y, rest[:1], *others, np.full(1, MOST, np.int32), np.full(4, MOST, np.int32), shares
    )
    np.testing.assert_array_equal(shares, 1.0)
