"""KL, M and M_w against direct NumPy and SciPy evaluation."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import rel_entr, softmax

from memorisk.runs.errors import InputError
from memorisk.scores.marks import CLIP, FLOOR, kl_divergence, mean_log_kl, paper_score, white_box_score


def answers(seed=0, n=50, k=7):
    rng = np.random.default_rng(seed)
    return softmax(rng.normal(scale=4, size=(n, k)), axis=1), softmax(rng.normal(scale=4, size=(n, k)), axis=1)


def test_kl_is_the_clipped_sum():
    p, q = answers()
    direct = np.array(
        [
            sum(a * np.log(a / b) for a, b in zip(np.clip(x, CLIP, 1), np.clip(y, CLIP, 1), strict=True))
            for x, y in zip(p, q, strict=True)
        ]
    )
    np.testing.assert_allclose(kl_divergence(p, q), direct, rtol=1e-12)
    inner = (p > 10 * CLIP).all(axis=1) & (q > 10 * CLIP).all(axis=1)
    np.testing.assert_allclose(kl_divergence(p, q)[inner], rel_entr(p, q).sum(axis=1)[inner], rtol=1e-10)
    assert (kl_divergence(p, p) == 0).all()
    certain = np.eye(3)
    np.testing.assert_allclose(kl_divergence(certain[:1], certain[1:2]), -np.log(CLIP) * (1 - CLIP), rtol=1e-6)


def test_many_marks_at_once():
    p, q = answers()
    stacked = kl_divergence(p, np.stack([q, p]))
    np.testing.assert_array_equal(stacked, [kl_divergence(p, q), np.zeros(len(p))])
    np.testing.assert_allclose(mean_log_kl(stacked), [np.log(kl_divergence(p, q)).mean(), np.log(FLOOR)])


def test_m_and_its_t_test():
    rng = np.random.default_rng(1)
    u, r = rng.exponential(2, 80), rng.exponential(1, 80)
    found = paper_score(u, r)
    assert found.m == pytest.approx(u.mean() - r.mean(), abs=1e-12)
    t = (u.mean() - r.mean()) / np.sqrt(u.var(ddof=1) / 80 + r.var(ddof=1) / 80)
    parts = np.array([u.var(ddof=1), r.var(ddof=1)]) / 80
    df = parts.sum() ** 2 / (parts**2 / 79).sum()
    assert found.p == pytest.approx(stats.t.sf(t, df), rel=1e-9)
    same = paper_score(u, u)
    assert same.m == 0
    assert paper_score(np.zeros(5), np.zeros(5)).p == 1


def test_white_box():
    rng = np.random.default_rng(2)
    u, r = rng.random(30), rng.random(30)
    u[0] = 0.0
    found = white_box_score(u, r)
    assert found.m == pytest.approx(np.mean(np.log(np.clip(u, CLIP, 1)) - np.log(np.clip(r, CLIP, 1))), abs=1e-12)
    assert (found.mean_mark, found.mean_random, found.n) == (u.mean(), r.mean(), 30)


def test_misfits_are_refused():
    p, q = answers()
    for bad in (lambda: kl_divergence(p, q[:, :3]), lambda: kl_divergence(p, q[:9]), lambda: kl_divergence(p[0], q[0])):
        with pytest.raises(InputError, match="of the same probes"):
            bad()
    with pytest.raises(InputError, match="between 0 and 1"):
        kl_divergence(p, np.log(q))
    with pytest.raises(InputError, match="n at least 2"):
        paper_score([1.0], [1.0])
    with pytest.raises(InputError, match="n at least 1"):
        white_box_score([], [])
