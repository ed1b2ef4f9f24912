"""Sketches leave out pairs and change no neighbour; what they bound they bound."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from memorisk.runs.errors import InputError
from memorisk.scores.distances import fit_measure, nearest, neighbours, pairwise, sketch
from memorisk.scores.distances.bounds import find_form
from memorisk.scores.distances.definitions import key_of
from memorisk.scores.distances.rows import Rows, Team
from tests.scores.distances.test_nearest import KINDS, assert_agree, brute, cases, fitted, table, typed
from tests.thorough import thorough

PRODUCTS = ("correlation", "cosine", "euclidean", "mahalanobis", "minkowski", "seuclidean", "sqeuclidean")


@pytest.fixture(params=[32, thorough(2)])
def always(monkeypatch, request):
    """Sketches for every search, however small, and for every tile."""
    for name in ("FEWEST_COLUMNS", "FEWEST_REFERENCES", "COST"):
        monkeypatch.setattr(sketch, name, 0)
    monkeypatch.setattr(sketch, "DIRECTIONS", request.param)
    monkeypatch.setattr(neighbours, "MOST_KEPT", 1.0)


@pytest.mark.parametrize(
    "name",
    ["cosine", "euclidean", "mahalanobis", *map(thorough, ("correlation", "minkowski", "seuclidean", "sqeuclidean"))],
)
@given(case=cases)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_the_nearest_are_those_by_brute_force(name, always, case):
    rng = np.random.default_rng(case["seed"])
    n, m, d = case["n"], case["m"], min(case["d"], 80 if name == "mahalanobis" else 700)
    m = min(m, 60) if name == "mahalanobis" or d * m > 40_000 else m
    x, r = table(case["kind"], n, d, rng), table(case["kind"], m, d, rng)
    x[: n // 2] = r[rng.integers(0, m, n // 2)]
    x, r = typed(x, case["type"]), typed(r, case["type"])
    groups = (rng.integers(0, 3, n), rng.integers(0, 3, m)) if case["groups"] else None
    try:
        measure = fitted(name, r, p=2.0)
        expected = brute(x, r, measure, case["k"], groups)
    except InputError as error:  # rounded to constant or zero rows, or to nothing that varies
        if not any(word in str(error) for word in ("constant", "zero", "var")):
            raise
        return
    found = nearest(x, r, measure, case["k"], exclude_same=groups, block=case["block"], threads=case["threads"])
    assert_agree(found, expected)


@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_out_of_float32_are_found_by_the_definition(name, always):
    rng = np.random.default_rng(1)
    for factor in (1e-40, 1e-25, 1e20, 1e40):
        r = (np.abs(rng.normal(size=(80, 10))) + 0.1) * factor
        r[20] *= 1e15
        r[30:35] *= 1e-20
        measure = fitted(name, r, p=2.0)
        assert_agree(nearest(r[15:40], r, measure, 3), brute(r[15:40], r, measure, 3))


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("type_", ["float64", "float32"])
def test_a_sketch_bounds_the_key_from_below(name, type_, always):
    """(1 - rho) value - beta <= (key^(1/2) + slack)^2; and of rows near a plane the sketch is nearly the distance."""
    for number, kind in enumerate((*KINDS, "plane")):
        rng = np.random.default_rng(number)
        d = 5 if number % 2 else 120
        if kind == "plane":
            plane = rng.normal(size=(2, d))
            x, r = (rng.normal(size=(size, 2)) @ plane for size in (20, 60))
        else:
            x, r = (table(kind, size, d, rng) for size in (20, 60))
        x, r = x.astype(type_), r.astype(type_)
        x[:10] = r[:10]
        measure = fitted(name, r, p=2.0)
        left, right, workers = Rows(x, "queries"), Rows(r, "references"), Team(1, None)
        form = find_form(measure, right, left.exact).with_sketches(right, 20, 1)
        a, b = (form.prepare(rows, 0, rows.n, workers).sketch for rows in (left, right))
        assert a is not None
        assert b is not None
        assert a.short.shape == (20, min(d, sketch.DIRECTIONS))
        rho, betas, slacks = form.sketch_bounds(a, b)
        value = ((a.short[:, None].astype(float) - b.short[None]) ** 2).sum(axis=2)
        keys = np.array([[key_of(v, form.multiplier, form.power) for v in row] for row in pairwise(x, r, measure)])
        assert ((1 - rho) * value - betas[:, None] <= (np.sqrt(keys) + slacks[:, None]) ** 2 * (1 + 1e-12)).all()
        if kind == "plane" and name in ("euclidean", "sqeuclidean"):
            np.testing.assert_allclose(value, keys, rtol=1e-3, atol=1e-4 * keys.max())


def test_few_pairs_are_evaluated_where_columns_depend_on_each_other_and_all_where_they_do_not(monkeypatch):
    """A search over 500 columns: of 12 dimensions with a little noise; then of noise alone, where it gives up."""
    from memorisk.scores.distances import definitions

    rng = np.random.default_rng(0)
    counts, tiles = [], []
    evaluate_near, evaluate = definitions.evaluate_near, neighbours.evaluate

    def counted(tile, *rest):
        counts.append(evaluate_near(tile, *rest) / tile.size)
        return counts[-1] * tile.size

    def whole(form, queries, references, tile):
        tiles.append(len(tile))
        evaluate(form, queries, references, tile)

    monkeypatch.setattr(definitions, "evaluate_near", counted)
    monkeypatch.setattr(neighbours, "evaluate", whole)
    mix = rng.normal(size=(12, 500))
    x, r = (rng.normal(size=(n, 12)) @ mix + 0.1 * rng.normal(size=(n, 500)) for n in (500, 2000))
    measure = fit_measure("euclidean", r)
    assert_agree(nearest(x, r, measure, 5, threads=1), brute(x, r, measure, 5))
    assert not tiles
    assert np.mean(counts) < 0.02
    counts.clear()
    x, r = rng.normal(size=(500, 500)), rng.normal(size=(2000, 500))
    measure = fit_measure("euclidean", r)
    assert_agree(nearest(x, r, measure, 5, threads=1), brute(x, r, measure, 5))
    assert len(counts) == 1
    assert sum(tiles) == 500 - 128


def test_no_directions_where_they_would_not_pay():
    rng = np.random.default_rng(2)
    r = rng.normal(size=(2000, 200))
    form = find_form(fit_measure("euclidean", r), Rows(r, "references"), False)
    assert form.with_sketches(Rows(r, "references"), 1000, 5).directions.shape == (200, sketch.DIRECTIONS)
    assert not form.with_sketches(Rows(r, "references"), 20, 5).directions.size  # few queries
    assert not form.with_sketches(Rows(r, "references"), 1000, 200).directions.size  # many neighbours
    narrow = find_form(fit_measure("euclidean", r[:, :50]), Rows(r[:, :50], "references"), False)
    assert not narrow.with_sketches(Rows(r[:, :50], "references"), 1000, 5).directions.size
    city = find_form(fit_measure("cityblock", r), Rows(r, "references"), False)
    assert not city.with_sketches(Rows(r, "references"), 1000, 5).directions.size
