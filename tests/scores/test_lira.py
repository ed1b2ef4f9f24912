"""LiRA: every variance convention pinned to SciPy, rules on references, and 0.5 when there is nothing to find."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from memorisk.runs.errors import InputError
from memorisk.scores.lira import lira_scores, twin_references
from memorisk.statistics.roc import auc
from tests.thorough import thorough

VARIANCES = ("per_example", "pooled_residual", "global")
OPTIONS = list(itertools.product(("online", "offline"), ("mean", "median"), VARIANCES))


def spread(column_lists, x, variance):
    """The spread of image x by its definition, from lists of the references that each image has."""
    if variance == "per_example":
        return np.std(column_lists[x])
    if variance == "global":
        return np.std(np.concatenate(column_lists))
    residuals = np.concatenate([c - np.mean(c) for c in column_lists])
    freedom = sum(len(c) - 1 for c in column_lists)
    return np.sqrt((residuals**2).sum() / freedom)


def naive_lira(target, refs_in, refs_out, mode, centre, variance):
    """One image at a time, in SciPy's words."""
    middle = {"mean": np.mean, "median": np.median}[centre]
    seen = [c[~np.isnan(c)] for c in refs_in.T]
    unseen = [c[~np.isnan(c)] for c in refs_out.T]
    scores = []
    for x, phi in enumerate(target):
        out = (middle(unseen[x]), spread(unseen, x, variance))
        if mode == "offline":
            scores.append((phi - out[0]) / out[1])  # in the order of norm.cdf(phi, *out)
        else:
            scores.append(norm.logpdf(phi, middle(seen[x]), spread(seen, x, variance)) - norm.logpdf(phi, *out))
    return np.array(scores)


@pytest.mark.parametrize(("mode", "centre", "variance"), OPTIONS)
def test_equals_the_definition(mode, centre, variance):
    rng = np.random.default_rng(0)
    difficulty = rng.normal(0, 3, 40)
    target = difficulty + rng.normal(size=40)
    refs_in = difficulty + 1 + rng.normal(size=(32, 40)) * rng.uniform(0.5, 2, 40)
    refs_out = difficulty + rng.normal(size=(33, 40))
    got = lira_scores(target, refs_in, refs_out, mode=mode, centre=centre, variance=variance)
    np.testing.assert_allclose(got, naive_lira(target, refs_in, refs_out, mode, centre, variance), rtol=1e-9)
    refs_in[rng.random(refs_in.shape) < 0.2] = np.nan
    refs_out[rng.random(refs_out.shape) < 0.2] = np.nan
    got = lira_scores(target, refs_in, refs_out, mode=mode, centre=centre, variance=variance, allow_small=True)
    np.testing.assert_allclose(got, naive_lira(target, refs_in, refs_out, mode, centre, variance), rtol=1e-9)


def test_blocks_of_images_do_not_show(monkeypatch):
    rng = np.random.default_rng(11)
    target, refs_in, refs_out = rng.normal(size=100), rng.normal(1, 2, (33, 100)), rng.normal(size=(33, 100))
    refs_in[rng.random(refs_in.shape) < 0.2] = np.nan
    whole = [
        lira_scores(target, refs_in, refs_out, mode=m, centre=c, variance=v, allow_small=True) for m, c, v in OPTIONS
    ]
    monkeypatch.setattr("memorisk.scores.lira.BLOCK", 7)
    for (mode, centre, variance), expected in zip(OPTIONS, whole, strict=True):
        got = lira_scores(target, refs_in, refs_out, mode=mode, centre=centre, variance=variance, allow_small=True)
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert lira_scores([], np.empty((8, 0)), np.empty((8, 0)), allow_small=True).shape == (0,)


def test_golden_values_by_hand():
    """Two images, IN {1, 3} and {4, 8}, OUT {0, 2} and {1, 7}, phi 2 and 6: each convention from its formula.

    Means IN 2 and 6, OUT 1 and 4. per_example (divided by n = 2): IN 1, 2; OUT 1, 3. pooled_residual: IN squares
    1+1+4+4 = 10 over 2 degrees of freedom, OUT 1+1+9+9 = 20 over 2. global: IN {1,3,4,8} about 4: 9+1+0+16 = 26 over 4;
    OUT {0,2,1,7} about 2.5: 6.25+0.25+2.25+20.25 = 29 over 4.
    """
    target, refs_in, refs_out = [2.0, 6.0], [[1.0, 4.0], [3.0, 8.0]], [[0.0, 1.0], [2.0, 7.0]]
    spreads = {
        "per_example": ([1.0, 2.0], [1.0, 3.0]),
        "pooled_residual": (np.sqrt(5), np.sqrt(10)),
        "global": (np.sqrt(6.5), np.sqrt(7.25)),
    }
    for variance, (s_in, s_out) in spreads.items():
        online = lira_scores(target, refs_in, refs_out, variance=variance, allow_small=True)
        expected = norm.logpdf(target, [2, 6], s_in) - norm.logpdf(target, [1, 4], s_out)
        np.testing.assert_allclose(online, expected, rtol=1e-12)
        offline = lira_scores(target, None, refs_out, mode="offline", variance=variance, allow_small=True)
        np.testing.assert_allclose(norm.logcdf(offline), norm.logcdf(target, [1, 4], s_out), rtol=1e-12)


def test_global_is_the_authors_fix_variance_with_each_side_its_own():
    rng = np.random.default_rng(1)
    target, refs_in, refs_out = rng.normal(size=9), rng.normal(1, 2, (40, 9)), rng.normal(size=(40, 9))
    got = lira_scores(target, refs_in, refs_out, centre="median", variance="global")
    expected = norm.logpdf(target, np.median(refs_in, 0), np.std(refs_in)) - norm.logpdf(
        target, np.median(refs_out, 0), np.std(refs_out)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_offline_is_one_sided_and_does_not_saturate():
    """A probability is 1 to the last bit above 38 standard deviations, where a model far better than all lies."""
    refs_out = np.random.default_rng(2).normal(size=(31, 2000))
    phi = np.linspace(-30, 350, 2000)
    score = lira_scores(phi, None, refs_out - refs_out.mean(0), mode="offline", variance="global")
    assert (np.diff(score) > 0).all()


def test_rules_on_the_number_of_models():
    def ask(per_side, **options):
        rng = np.random.default_rng(3)
        refs = rng.normal(size=(2, per_side, 50))
        return lira_scores(rng.normal(size=50), refs[0], refs[1], **options)

    assert np.isfinite(ask(7)).all()  # K = 16: 7 per side, the target and its twin apart
    with pytest.raises(InputError, match=r"online LiRA needs 16 models .7 references per side., here 14"):
        ask(6)
    assert np.isfinite(ask(6, mode="offline")).all()
    assert np.isfinite(ask(6, allow_small=True)).all()
    assert np.isfinite(ask(31, variance="per_example")).all()
    for mode in ("online", "offline"):
        with pytest.raises(InputError, match=r"variance per example needs 64 models .31 references per side., here 62"):
            ask(30, variance="per_example", mode=mode)


def test_images_without_enough_references_have_no_score():
    rng = np.random.default_rng(4)
    target, refs_in, refs_out = rng.normal(size=4), rng.normal(size=(8, 4)), rng.normal(size=(8, 4))
    refs_in[4:, 1] = np.nan  # half of them: enough
    refs_out[3:, 2] = np.nan  # 3 of 8: too few
    target[3] = np.nan
    score = lira_scores(target, refs_in, refs_out)
    assert np.isnan(score).tolist() == [False, False, True, True]
    without = lira_scores(target[:2], refs_in[:, :2], refs_out[:, :2], variance="global")
    with_them = lira_scores(target, refs_in, refs_out, variance="global")
    assert without[0] == pytest.approx(
        norm.logpdf(target[0], refs_in[:, 0].mean(), np.nanstd(refs_in[:, :2]))
        - norm.logpdf(target[0], refs_out[:, 0].mean(), np.std(refs_out[:, :2]))
    )
    assert np.isnan(with_them[2])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.zeros(3), np.zeros((8, 3)), np.zeros((8, 3))), {"mode": "onlin"}, "unknown LiRA mode.*'online'"),
        ((np.zeros(3), np.zeros((8, 3)), np.zeros((8, 3))), {"variance": "pooled"}, "Did you mean 'pooled_residual'"),
        ((np.zeros(3), np.zeros((8, 3)), np.zeros((8, 3))), {"centre": "mode"}, "unknown LiRA centre"),
        ((np.zeros(3), None, np.zeros((8, 3))), {}, "use mode='offline'"),
        ((np.zeros(3), np.zeros((8, 2)), np.zeros((8, 3))), {}, "refs_in .references, images."),
        ((np.array([0, 0, np.inf]), np.zeros((8, 3)), np.zeros((8, 3))), {}, "must be finite"),
        ((np.zeros(3), np.zeros((8, 3)), np.full((8, 3), -np.inf)), {}, "must be finite .*refs_out"),
        ((np.zeros(3), np.zeros((0, 3)), np.zeros((8, 3))), {}, "refs_in has none"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, options, message):
    with pytest.raises(InputError, match=message) as caught:
        lira_scores(*arguments, **options)
    assert "\n" not in str(caught.value)


# -- references


def test_twin_references_are_one_per_side_and_other_seed():
    rng = np.random.default_rng(5)
    seeds, n = 5, 30
    sign = rng.choice([-1, 0, 1], size=(seeds, n))
    phi_a, phi_b = rng.normal(size=(2, seeds, n))
    refs = twin_references(phi_a, phi_b, sign, 2)
    for row, s in enumerate([0, 1, 3, 4]):
        for x in range(n):
            if sign[s, x] == 0:
                assert np.isnan(refs.refs_in[row, x])
                assert np.isnan(refs.refs_out[row, x])
            else:
                saw, not_saw = (phi_a, phi_b) if sign[s, x] > 0 else (phi_b, phi_a)
                assert refs.refs_in[row, x] == saw[s, x]
                assert refs.refs_out[row, x] == not_saw[s, x]
    with pytest.raises(InputError, match="2 seeds or more"):
        twin_references(phi_a[:1], phi_b[:1], sign[:1], 0)
    with pytest.raises(InputError, match="below 5, got 5"):
        twin_references(phi_a, phi_b, sign, 5)


# -- nothing memorized, the target among the K

REPEATS, IMAGES = 200, 1000


def null_pairs(rng, seeds, correlated):
    """phi of twins with nothing memorized: difficulty per image, and noise that twins of a seed share."""
    sign = np.stack([rng.permutation(np.arange(IMAGES) % 2) * 2 - 1 for _ in range(seeds)])
    difficulty, shared = rng.normal(0, 2, IMAGES), rng.normal(0, np.sqrt(correlated), (seeds, IMAGES))
    own = rng.normal(0, np.sqrt(1 - correlated), (2, seeds, IMAGES))
    return difficulty + shared + own[0], difficulty + shared + own[1], sign


def half_and_two_sd(aucs):
    return abs(np.mean(aucs) - 0.5) <= 2 * np.std(aucs, ddof=1) / np.sqrt(len(aucs))


@pytest.mark.parametrize("seeds", [4, thorough(8)])
def test_twin_references_give_half_when_nothing_is_memorized(seeds):
    rng = np.random.default_rng(8)
    aucs = {option: [] for option in OPTIONS}
    for _ in range(REPEATS):
        phi_a, phi_b, sign = null_pairs(rng, seeds, 0.6)
        refs = twin_references(phi_a, phi_b, sign, 0)
        for mode, centre, variance in OPTIONS:
            score = lira_scores(
                phi_a[0], refs.refs_in, refs.refs_out, mode=mode, centre=centre, variance=variance, allow_small=True
            )
            aucs[mode, centre, variance].append(auc(score[sign[0] > 0], score[sign[0] < 0]))
    # Twelve options on the same draws: the two-sd rule holds for their mean, and three sd for each of them.
    assert half_and_two_sd(np.mean(list(aucs.values()), axis=0))
    for option, values in aucs.items():
        assert abs(np.mean(values) - 0.5) <= 3 * np.std(values, ddof=1) / np.sqrt(REPEATS), option


def test_all_but_the_target_as_references_is_biased():
    """METHODS: "else no memorization gives AUC 0.43 at K = 8"; twins that share their noise make it worse."""
    rng = np.random.default_rng(9)
    naive, twins = [], []
    for _ in range(REPEATS):
        for correlated, into in ((0.0, naive), (0.6, twins)):
            phi_a, phi_b, sign = null_pairs(rng, 4, correlated)
            phi, member = np.concatenate([phi_a, phi_b]), np.concatenate([sign > 0, sign < 0])
            rest = np.arange(8) != 0
            refs_in = np.where(member[rest], phi[rest], np.nan)
            refs_out = np.where(~member[rest], phi[rest], np.nan)
            score = lira_scores(phi[0], refs_in, refs_out, variance="per_example", allow_small=True)
            into.append(auc(score[member[0]], score[~member[0]]))
    assert np.mean(naive) == pytest.approx(0.43, abs=0.01)
    assert np.mean(twins) < 0.35


def test_memorized_images_are_found_and_the_online_form_finds_more():
    rng = np.random.default_rng(10)
    aucs = {"online": [], "offline": []}
    for _ in range(20):
        phi_a, phi_b, sign = null_pairs(rng, 8, 0.6)
        gain = rng.gamma(2.0, 0.8, IMAGES)  # per image, so that only IN references tell who is memorized
        phi_a, phi_b = phi_a + gain * (sign > 0), phi_b + gain * (sign < 0)
        refs = twin_references(phi_a, phi_b, sign, 0)
        for mode, values in aucs.items():
            score = lira_scores(phi_a[0], refs.refs_in, refs.refs_out, mode=mode)
            values.append(auc(score[sign[0] > 0], score[sign[0] < 0]))
    assert np.mean(aucs["offline"]) > 0.7
    assert np.mean(aucs["online"]) > np.mean(aucs["offline"])
