"""The q x q system against dense algebra and statsmodels, and planted effects recovered."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import optimize
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from memorisk.runs.errors import InputError
from memorisk.statistics.mixed_models import fit_mixed, nested


def crossed(rng, n=200, a=8, b=5, sd=(0.8, 0.5), slope=0.5):
    first, second, x = rng.integers(0, a, n), rng.integers(0, b, n), rng.normal(size=n)
    y = 1 + slope * x + sd[0] * rng.normal(size=a)[first] + sd[1] * rng.normal(size=b)[second] + rng.normal(size=n)
    return y, np.column_stack([np.ones(n), x]), first, second


def dense(y, x, factors, variances, residual):
    """Restricted log-likelihood, coefficients and covariance from the n x n covariance of the rows."""
    v = residual * np.eye(len(y))
    for codes, variance in zip(factors, variances, strict=True):
        v += variance * (np.asarray(codes)[:, None] == np.asarray(codes))
    inverse = np.linalg.inv(v)
    covariance = np.linalg.inv(x.T @ inverse @ x)
    beta = covariance @ x.T @ inverse @ y
    rest = y - x @ beta
    logs = np.linalg.slogdet(v)[1] - np.linalg.slogdet(covariance)[1]
    n, p = x.shape
    return -0.5 * ((n - p) * np.log(2 * np.pi) + logs + rest @ inverse @ rest), beta, covariance


def test_equals_dense_algebra_and_is_its_maximum():
    y, x, a, b = crossed(np.random.default_rng(0), n=80)
    fit = fit_mixed(y, x, {"a": a, "b": b}, ["intercept", "x"])
    at = [fit.variances["a"], fit.variances["b"], fit.residual]
    value, beta, covariance = dense(y, x, (a, b), at[:2], at[2])
    np.testing.assert_allclose(fit.log_likelihood, value, rtol=1e-10)
    np.testing.assert_allclose(fit.coefficients, beta, rtol=1e-9)
    np.testing.assert_allclose(fit.covariance, covariance, rtol=1e-9)
    best = optimize.minimize(
        lambda t: -dense(y, x, (a, b), np.exp(t[:2]), np.exp(t[2]))[0], np.zeros(3), method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 2000},
    )  # fmt: skip
    assert fit.log_likelihood >= -best.fun - 1e-7
    np.testing.assert_allclose(np.log(at), best.x, atol=1e-3)
    assert fit.coefficient("x")[1] == pytest.approx(np.sqrt(covariance[1, 1]))


def test_equals_statsmodels_with_one_factor():
    rng = np.random.default_rng(1)
    g, x = np.repeat(np.arange(12), 5), rng.normal(size=60)
    y = 1 + 0.5 * x + 0.8 * rng.normal(size=12)[g] + rng.normal(size=60)
    fit = fit_mixed(y, np.column_stack([np.ones(60), x]), {"g": g})
    other = smf.mixedlm("y ~ x", pd.DataFrame({"y": y, "x": x, "g": g}), groups="g").fit(reml=True)
    np.testing.assert_allclose(fit.coefficients, other.fe_params, rtol=1e-4)
    assert fit.residual == pytest.approx(other.scale, rel=1e-3)
    assert fit.variances["g"] == pytest.approx(float(other.cov_re.iloc[0, 0]), rel=1e-3)
    assert fit.log_likelihood == pytest.approx(other.llf, abs=1e-6)


def test_equals_statsmodels_with_crossed_factors():
    y, x, a, b = crossed(np.random.default_rng(2))
    fit = fit_mixed(y, x, {"a": a, "b": b})
    table = pd.DataFrame({"y": y, "x": x[:, 1], "a": a, "b": b, "one": 1})
    components = {"a": "0 + C(a)", "b": "0 + C(b)"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = smf.mixedlm("y ~ x", table, groups="one", re_formula="0", vc_formula=components).fit(reml=True)
    np.testing.assert_allclose(fit.coefficients, other.fe_params, rtol=1e-3)
    # Its standard errors come from the joint Hessian with the variances; ours are the textbook form at its estimates.
    covariance = dense(y, x, (a, b), other.vcomp, other.scale)[2]
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), np.sqrt(np.diag(covariance)), rtol=1e-3)
    np.testing.assert_allclose(list(fit.variances.values()), other.vcomp, rtol=5e-3)
    assert fit.log_likelihood == pytest.approx(other.llf, abs=1e-5)


def test_nested_levels_are_those_of_the_pairs():
    inner, outer = ["mel", "nv", "mel", "mel"], ["ham", "ham", "isic", "ham"]
    codes = nested(inner, outer)
    assert codes.tolist() == [0, 1, 2, 0]
    y, x, a, b = crossed(np.random.default_rng(3), n=60, a=3, b=4)
    split = fit_mixed(y, x, {"b within a": nested(b, a)})
    joint = fit_mixed(y, x, {"b within a": 10 * a + b})
    assert split.log_likelihood == pytest.approx(joint.log_likelihood)
    assert split.levels["b within a"] == len(np.unique(10 * a + b))


def test_planted_effects_are_recovered():
    rng = np.random.default_rng(4)
    fits = [fit_mixed(y, x, {"a": a, "b": b}) for y, x, a, b in (crossed(rng, n=400, a=30, b=20) for _ in range(40))]
    for found, truth in (
        ([f.coefficients[1] for f in fits], 0.5),
        ([f.variances["a"] for f in fits], 0.64),
        ([f.variances["b"] for f in fits], 0.25),
        ([f.residual for f in fits], 1.0),
    ):
        assert abs(np.mean(found) - truth) < 3.5 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_no_variance_is_exactly_zero_and_no_factor_is_least_squares():
    rng = np.random.default_rng(5)
    g = np.repeat(np.arange(10), 6)
    within, noise = (v - np.bincount(g, weights=v)[g] / 6 for v in rng.normal(size=(2, 60)))
    x, y = np.column_stack([np.ones(60), within]), 1 + within + noise  # every group has the same mean
    fit, plain = fit_mixed(y, x, {"g": g}), fit_mixed(y, x, {})
    assert fit.variances["g"] == 0
    np.testing.assert_allclose(fit.coefficients, plain.coefficients, rtol=1e-9)
    np.testing.assert_allclose(plain.coefficients, np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-9)
    assert plain.residual == pytest.approx(np.sum((y - x @ plain.coefficients) ** 2) / 58)


def test_a_hundred_thousand_rows_take_seconds():
    rng = np.random.default_rng(6)
    n = 100_000
    c, s = rng.integers(0, 90, n), rng.integers(0, 8, n)
    x = rng.normal(size=90)[c]
    y = 0.5 * x + rng.normal(size=90)[c] + 0.3 * rng.normal(size=8)[s] + rng.normal(size=n)
    started = time.perf_counter()
    fit = fit_mixed(y, np.column_stack([np.ones(n), x]), {"c": c, "s": s})
    assert time.perf_counter() - started < 10
    slope, error = fit.coefficient("x1")
    assert abs(slope - 0.5) < 4 * error
    assert 0.05 < error < 0.2  # 90 classes, not 100,000 rows, tell of it
    assert fit.residual == pytest.approx(1.0, abs=0.02)


def test_bad_input_is_named():
    y, x, a, _ = crossed(np.random.default_rng(7), n=20)
    with pytest.raises(InputError, match="combination of the others"):
        fit_mixed(y, np.column_stack([x, x[:, 1]]), {"a": a})
    with pytest.raises(InputError, match="factor one has 1 levels"):
        fit_mixed(y, x, {"one": np.zeros(20)})
    with pytest.raises(InputError, match="factor every has 20 levels"):
        fit_mixed(y, x, {"every": np.arange(20)})
    with pytest.raises(InputError, match="do not fit"):
        fit_mixed(y[:-1], x, {})
    with pytest.raises(InputError, match="must be finite"):
        fit_mixed(np.where(y == y[0], np.nan, y), x, {})
    with pytest.raises(InputError, match="3 names for 2"):
        fit_mixed(y, x, {}, ["a", "b", "c"])
    with pytest.raises(InputError, match="no fixed effect 'z'"):
        fit_mixed(y, x, {}).coefficient("z")
