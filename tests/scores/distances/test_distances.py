"""The 14 measures against SciPy; what is fitted, saved, loaded and refused."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.covariance import LedoitWolf

from memorisk.runs.errors import InputError
from memorisk.scores.distances import MEASURES, FittedMeasure, fit_measure, pairwise, rowwise

NAMES = sorted(MEASURES)
POSITIVE = ("braycurtis", "canberra", "jensenshannon")
BINARY = ("dice", "matching")
OTHERS = [n for n in NAMES if n not in POSITIVE]


def settings_of(name, domain=None):
    return {"binarise": "median"} if name in BINARY else {"domain": domain} if name in POSITIVE else {}


def embeddings(kind, n, d, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    if kind == "tied":
        x = rng.integers(-2, 3, (n, d)).astype(float)
        x[:, 0] += rng.integers(5, 9, n)
    elif kind == "sparse":
        x *= rng.random((n, d)) < 0.2
        x[:, 0] += 0.5
    elif kind == "duplicated":
        x = x[rng.integers(0, max(1, n // 2), n)]
    elif kind == "offset":
        x += 1e4
    return x


def by_scipy(x, r, name, measure, p):
    """cdist with what was fitted on the references, computed apart."""
    known = {"hamming": {}, "minkowski": {"p": p}}
    if name == "seuclidean":
        known[name] = {"V": r.var(axis=0, ddof=1)}
    if name == "mahalanobis":
        covariance = LedoitWolf().fit(r).covariance_ if measure.shrinkage else np.atleast_2d(np.cov(r.T))
        known[name] = {"VI": np.linalg.inv(covariance)}
    if name == "whitened":
        x, r = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, r))
        root = np.linalg.cholesky(np.linalg.inv(LedoitWolf().fit(r).covariance_))
        x, r, name = (x - r.mean(axis=0)) @ root, (r - r.mean(axis=0)) @ root, "cosine"
    if name in BINARY:
        middle = np.median(r, axis=0)
        x, r = x > middle, r > middle
        name = "hamming" if name == "matching" else name
    return cdist(x, r, name, **known.get(name, {}))


@pytest.mark.parametrize("kind", ["random", "tied", "sparse", "duplicated", "offset"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "d"), [(60, 7), (13, 40), (1, 3)])
def test_equals_scipy(name, kind, n, d):
    x, r = embeddings(kind, 11, d, 1), embeddings(kind, n, d, 2)
    if name in ("seuclidean", "mahalanobis", "whitened") and n < 2:
        pytest.skip("no variance")
    if name in POSITIVE:
        x, r = np.abs(x), np.abs(r)
    if kind == "duplicated":
        x[: min(n, 5)] = r[:5]
    measure = fit_measure(name, r, **settings_of(name))
    if name == "seuclidean" and measure.constant_columns:
        keep = measure.variance > 0
        expected = by_scipy(x[:, keep], r[:, keep], name, measure, 3)
    else:
        expected = by_scipy(x, r, name, measure, 3)
    found = pairwise(x, r, measure)
    defined = ~np.isnan(expected)
    assert defined.all() or name in ("dice", "jensenshannon")
    assert (found[~defined] <= 3e-8 * (name == "jensenshannon")).all()  # 0/0, or the root of a negative rounding error
    tolerance = {"cosine": 1e-13, "correlation": 1e-13, "whitened": 1e-9, "jensenshannon": 3e-8}.get(
        name, 0
    )  # SciPy's own noise near 0
    np.testing.assert_allclose(found[defined], expected[defined], rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("name", POSITIVE)
@pytest.mark.parametrize("domain", ["signed", "shift", "softplus"])
def test_domains(name, domain):
    x, r = embeddings("random", 9, 12, 3), embeddings("random", 30, 12, 4)
    if domain == "shift":
        x = np.maximum(x, r.min(axis=0))
        a, b = x - r.min(axis=0), r - r.min(axis=0)
    elif domain == "softplus":
        a, b = np.log1p(np.exp(x)), np.log1p(np.exp(r))
    else:
        a, b = (np.abs(x), np.abs(r)) if name == "jensenshannon" else (x, r)
    measure = fit_measure(name, r, domain=domain)
    np.testing.assert_allclose(pairwise(x, r, measure), cdist(a, b, name), rtol=1e-9)
    assert domain == "signed" or measure.plain_words != name
    with pytest.raises(
        InputError, match=r"rows .* \(30 in all\) of the references hold negative.*'shift' or 'softplus'"
    ):
        fit_measure(name, r)
    with pytest.raises(InputError, match="row 1 of the queries hold negative values"):
        pairwise([[1.0] * 12, [-1.0] * 12], np.abs(r), fit_measure(name, np.abs(r)))


@pytest.mark.parametrize("name", NAMES)
def test_exact_copies_are_at_zero(name):
    for scale, offset in ((1e4, 0), (1, 1e8), (1e-6, 1)):
        r = embeddings("random", 20, 16, 5) * scale + offset
        r = np.abs(r) if name in POSITIVE else r
        measure = fit_measure(name, r, **settings_of(name))
        assert (np.diag(pairwise(r, r, measure)) == 0).all()


def test_near_copies_keep_their_digits():
    x = np.abs(embeddings("random", 1, 64, 6))
    y = x * (1 + 1e-9 * np.where(np.arange(64) % 2, 1, -1))
    p, q = x / x.sum(), y / y.sum()
    t = (p - q) / (p + q)
    exact = np.sqrt(np.sum((p + q) / 2 * t * t / 2))
    np.testing.assert_allclose(pairwise(x, y, fit_measure("jensenshannon", x))[0, 0], exact, rtol=1e-6)
    unit, other = x / np.linalg.norm(x), y / np.linalg.norm(y)
    found = pairwise(x, y, fit_measure("cosine", x))[0, 0]
    np.testing.assert_allclose(found, np.sum((unit - other) ** 2) / 2, rtol=1e-6)
    assert 0 < found < 1e-17


@given(st.floats(-1, 1))
@settings(max_examples=200, deadline=None)
def test_entropy_gap(t):
    from memorisk.scores.distances.definitions import _binary_entropy_gap

    x, y = np.longdouble(1) + t, np.longdouble(1) - t
    exact = float((x * np.log(x) if x > 0 else 0) + (y * np.log(y) if y > 0 else 0)) / 2
    np.testing.assert_allclose(_binary_entropy_gap(t), exact, rtol=1e-12, atol=1e-18)


def test_what_is_fitted():
    r = embeddings("random", 12, 12, 7)
    r[:, 3] = 0.1
    standard = fit_measure("seuclidean", r)
    assert standard.constant_columns == 1
    assert standard.variance[3] == 0
    moved = r.copy()
    moved[:, 3] += 5
    np.testing.assert_array_equal(pairwise(r, moved, standard), pairwise(r, r, standard))
    shrunk = fit_measure("mahalanobis", r)
    assert 0 < shrunk.shrinkage <= 1
    assert "Ledoit-Wolf" in shrunk.plain_words
    many = embeddings("random", 200, 5, 8)
    assert fit_measure("mahalanobis", many).shrinkage == 0
    twice = np.hstack([many, many[:, :1]])  # a singular covariance
    assert fit_measure("mahalanobis", twice).shrinkage > 0
    assert "ignored" in standard.plain_words


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 7.0, 40.0])
def test_minkowski_powers(p):
    x, r = embeddings("random", 8, 20, 9) * 1e30, embeddings("random", 9, 20, 10) * 1e30
    found = pairwise(x, r, fit_measure("minkowski", r, p=p))
    np.testing.assert_allclose(found, cdist(x / 1e30, r / 1e30, "minkowski", p=p) * 1e30, rtol=1e-9)
    if p == 2:
        np.testing.assert_array_equal(found, pairwise(x, r, fit_measure("euclidean", r)))


def test_rows_beside_each_other_are_the_diagonal():
    x, r = embeddings("random", 30, 6, 13), embeddings("random", 30, 6, 14)
    measure = fit_measure("euclidean", r)
    np.testing.assert_array_equal(rowwise(x, r, measure), np.diag(pairwise(x, r, measure)))
    with pytest.raises(InputError, match="29 rows are compared with 30"):
        rowwise(x[1:], r, measure)


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(name, tmp_path):
    r = np.abs(embeddings("random", 30, 6, 11))
    measure = fit_measure(name, r, **settings_of(name, "shift"))
    measure.save(tmp_path / "m.safetensors")
    loaded = FittedMeasure.load(tmp_path / "m.safetensors")
    for field in dataclasses.fields(FittedMeasure):
        a, b = getattr(measure, field.name), getattr(loaded, field.name)
        if isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes()
        else:
            assert a == b
    np.testing.assert_array_equal(pairwise(r, r, measure), pairwise(r, r, loaded))


def test_files_that_are_none(tmp_path):
    r = embeddings("random", 30, 6, 11)
    good, bad = tmp_path / "good", tmp_path / "bad"
    fit_measure("mahalanobis", r).save(good)
    whole = good.read_bytes()
    for content in (b"", b"x" * 40, whole[:-9], whole[:50], whole.replace(b"mahalanobis", b"minkowskiii"),
                    whole.replace(b"domain", b"domail")):  # fmt: skip
        bad.write_bytes(content)
        with pytest.raises(InputError) as caught:
            FittedMeasure.load(bad)
        assert "\n" not in str(caught.value)
    from safetensors.numpy import save_file

    save_file({"x": r}, bad)
    with pytest.raises(InputError, match="holds no memorisk distance measure"):
        FittedMeasure.load(bad)
    with pytest.raises(InputError, match="absent does not exist"):
        FittedMeasure.load(tmp_path / "absent")


def test_refusals():
    r = embeddings("random", 30, 6, 12)
    bad = r.copy()
    bad[[3, 7, 8, 9, 20, 21, 22], 2] = np.nan
    with pytest.raises(InputError, match=r"rows 3, 7, 8, 9, 20, \.\.\. \(7 in all\) of the references hold NaN"):
        fit_measure("euclidean", bad)
    bad = r.copy()
    bad[4] = 0
    with pytest.raises(InputError, match="row 4 of the references are zero, where cosine is undefined"):
        fit_measure("cosine", bad)
    with pytest.raises(InputError, match="row 4 of the queries are constant"):
        pairwise(bad, r, fit_measure("correlation", r))
    with pytest.raises(InputError, match="zero, where jensenshannon"):
        fit_measure("jensenshannon", np.abs(bad))
    bad = np.abs(r)
    bad[5, 2] = -0.5
    with pytest.raises(InputError, match="row 5 of the references hold negative values, canberra is defined for"):
        fit_measure("canberra", bad)
    for name in BINARY:
        with pytest.raises(InputError, match="give binarise='median'"):
            fit_measure(name, r)
        with pytest.raises(InputError, match="unknown binarisation"):
            fit_measure(name, r, binarise="mean")
    with pytest.raises(InputError, match="takes no domain"):
        fit_measure("euclidean", r, domain="shift")
    with pytest.raises(InputError, match="unknown domain"):
        fit_measure("canberra", r, domain="shifted")
    with pytest.raises(InputError, match="takes no binarise"):
        fit_measure("cosine", r, binarise="median")
    with pytest.raises(InputError, match="Did you mean 'euclidean'"):
        fit_measure("euclidian", r)
    for table in (r[0], np.empty((0, 3)), r.astype(complex), np.array([["a"]])):
        with pytest.raises(InputError):
            fit_measure("euclidean", table)
    with pytest.raises(InputError, match="minkowski's p"):
        fit_measure("minkowski", r, p=0.5)
    for name in ("seuclidean", "mahalanobis", "whitened"):
        with pytest.raises(InputError, match="at least two"):
            fit_measure(name, r[:1])
        with pytest.raises(InputError, match="variance"):
            fit_measure(name, np.ones((30, 6)))
    with pytest.raises(InputError, match="5 columns"):
        pairwise(r[:, :5], r, fit_measure("euclidean", r))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors(kind):
    r = torch.from_numpy(embeddings("random", 10, 6, 13)).to(kind).requires_grad_()
    plain = r.detach().double().numpy()
    measure, same = fit_measure("mahalanobis", r), fit_measure("mahalanobis", plain)
    np.testing.assert_array_equal(pairwise(r, r, measure), pairwise(plain, plain, same))


def test_without_a_place_for_the_cache(monkeypatch):
    from memorisk.scores.distances import kernels

    plain = kernels.njit

    def njit(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(kernels, "njit", njit)
    assert kernels.compiled()(lambda x: x + 1)(2) == 3


def test_registry():
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert measure.domain in ("any", "non-negative", "binary")
        told = [field.name for field in dataclasses.fields(measure) if field.name not in ("rows", "like")]
        assert all(getattr(measure, name) for name in told)
        assert (measure.rows, measure.like) == (None, None)  # of measures that other packages bring
