"""The second look: turned and cropped copies are confirmed on their sources, other people are not, and what follows."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memorisk.audits.comparison import second_look
from memorisk.audits.comparison.plants import no_plants
from memorisk.audits.comparison.second_look import look_again
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.run_images import SYNTHETIC, TRAIN, parts_of
from memorisk.audits.synthetic import analysis
from memorisk.audits.synthetic.analysis import analyse_synthetic
from memorisk.audits.synthetic.findings import compute_findings, with_alignments
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.page import synthetic_page
from memorisk.audits.synthetic.result import AlignedPairs, SyntheticSummary, WindowCut
from memorisk.audits.synthetic.run import gather_evidence
from memorisk.audits.synthetic.sections.pictures import pair_pictures
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.copies.alignment import LARGEST_CORRELATION, WINDOWS
from memorisk.report.numbers import from_json
from memorisk.report.page import render_page
from memorisk.runs.workload import no_progress
from tests.audits.synthetic.making import laid_once, store_of
from tests.images.copies.test_alignment import about_centre, picture, seen_through

N_TRAIN, N_HELD, N_MADE = 40, 40, 30
MOVED = {0: about_centre(picture(0, 32, 32), 4), 1: about_centre(picture(0, 32, 32), 0, 0.9)}
"""What is done to the training images of the same numbers to give synthetic images."""
OPTIONS = SyntheticOptions(detector=("pixels:32",), plants=3, plant_kinds=("exact", "flipped", "noised"))


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory):
    """Pictures of nobody in particular, and two moved copies among the synthetic ones."""
    folder: Path = tmp_path_factory.mktemp("second-look")
    images = [picture(seed, 32, 32) for seed in range(N_TRAIN + N_HELD + N_MADE)]
    train, held, made = (np.stack(part) for part in (images[:N_TRAIN], images[N_TRAIN:-N_MADE], images[-N_MADE:]))
    for row, matrix in MOVED.items():
        made[row] = seen_through(train[row], matrix)
    sets = Sets(
        store_of(train, folder, "train"), store_of(made, folder, "set"), store_of(held, folder, "held"), 0, 0,
        frozenset(), (),
    )  # fmt: skip
    return gather_evidence(sets, OPTIONS, no_progress)


@pytest.fixture(scope="module")
def lay() -> Callable[..., Any]:
    """Alignment of an image, once for all tests."""
    return laid_once()


@pytest.fixture(autouse=True)
def forty_images(monkeypatch: pytest.MonkeyPatch, lay: Callable[..., Any]) -> None:
    """More than there are, so that all are looked at; an audit takes the second look."""
    monkeypatch.setattr(second_look, "MOST_IMAGES", 40)
    monkeypatch.setattr(second_look, "_lay", lay)
    monkeypatch.setattr(analysis, "look_again", look_again)


def look(evidence, flagged):
    return look_again(evidence, flagged, seed=0)


def test_moved_copies_are_confirmed_and_other_people_are_not(evidence) -> None:
    said = look(evidence, [(2, 2), (3, 7)])
    assert said is not None
    assert {(pair.synthetic, pair.train) for pair in said.confirmed} == {(0, 0), (1, 1)}
    assert said.n_images == N_MADE
    assert {pair.synthetic for pair in said.pairs} == set(range(N_MADE))
    assert "turned by 4 degrees" in said.confirmed[0].alignment.words + said.confirmed[1].alignment.words
    assert said.n_control_beyond == 0
    assert len(said.null) == N_HELD
    assert len(said.control) == N_MADE
    assert said.plants[evidence.plants.kind == "exact"].all()
    assert set(said.kinds) == {"exact", "flipped", "noised"}


def test_flagged_images_are_looked_at_first_then_the_nearest(evidence, monkeypatch) -> None:
    monkeypatch.setattr(second_look, "MOST_IMAGES", 5)
    said = look(evidence, [(20, 2), (21, 7)])
    nearest = np.argsort(evidence.views[0].distances.synthetic)
    assert {pair.synthetic for pair in said.pairs} == {20, 21, *nearest[:3].tolist()}
    assert said.n_left == 0
    assert look(evidence, [(row, 0) for row in range(9)]).n_left == 4
    far = evidence.views[0].distances.plants > evidence.views[0].distances.synthetic[nearest[4]]
    assert not said.plants[far].any()


def test_a_copy_counts_only_where_a_place_is_left_for_it(evidence, monkeypatch) -> None:
    monkeypatch.setattr(second_look, "MOST_IMAGES", 5)
    distances = evidence.views[0].distances
    exact = evidence.plants.kind == "exact"
    assert (distances.plants[exact] < np.sort(distances.synthetic)[4]).all()
    assert look(evidence, [(20, 2)]).plants[exact].all()
    assert not look(evidence, [(row, 2) for row in range(10, 15)]).plants.any()


def test_copies_that_are_confirmed_count_as_noticed(evidence) -> None:
    distances = [view.distances for view in evidence.views]
    found = compute_findings(evidence.sets, distances, evidence.copies, evidence.plants, OPTIONS, evidence.review)
    confirmed = np.zeros(evidence.plants.n, bool)
    confirmed[evidence.plants.kind == "flipped"] = True
    both = with_alignments(found, [4, 4, 5], confirmed, evidence.plants, seed=0)
    np.testing.assert_array_equal(both.noticed, found.noticed | confirmed)
    assert both.power.kinds["flipped"].estimate == 1
    made = found.singled.copy()
    made[[4, 5]] = True
    assert both.bound.found == made.sum()
    nothing = np.zeros(0, bool)
    without = with_alignments(replace(found, noticed=nothing), [4], nothing, no_plants(evidence.sets.train), seed=0)
    assert (without.power, without.bound, without.also) == (None, None, {})


def test_nothing_is_looked_at_without_held_out_images_or_candidates(evidence) -> None:
    without = replace(evidence, sets=replace(evidence.sets, held=None))
    assert look_again(without, [(0, 0)], seed=0) is None
    bare = [replace(view, distances=replace(view.distances, candidates=None)) for view in evidence.views]
    assert look(replace(evidence, views=tuple(bare)), [(0, 0)]) is None


def test_a_cut_that_no_correlation_reaches_is_a_look_that_confirms_nothing(evidence) -> None:
    said = look(evidence, [])
    assert said.looked
    beyond = [replace(size, tail=replace(size.tail, cut=9.0)) for size in said.cut.sizes]
    unreached = replace(said, cut=replace(said.cut, sizes=tuple(beyond)))
    assert [window.correlation for window in unreached.windows] == [None] * len(beyond)
    assert not unreached.looked
    least = [share * np.arctanh(LARGEST_CORRELATION) for share in WINDOWS]
    for factor, reached in ((0.99, True), (1.01, False)):
        sizes = [replace(s, tail=replace(s.tail, cut=factor * z)) for s, z in zip(said.cut.sizes, least, strict=True)]
        assert replace(said, cut=replace(said.cut, sizes=tuple(sizes))).looked == reached


def test_a_dismissed_pair_is_not_looked_at(evidence) -> None:
    dismissed = replace(evidence, copies=replace(evidence.copies, dismissed=frozenset({(0, 0)})))
    said = look(dismissed, [(0, 0), (1, 1)])
    assert {(pair.synthetic, pair.train) for pair in said.confirmed} == {(1, 1)}


def test_synthetic_images_that_lie_on_held_out_images_are_counted_as_the_control(evidence, tmp_path: Path) -> None:
    sets = evidence.sets
    made = np.array(sets.synthetic.images)
    noise = np.random.default_rng(0).integers(-4, 5, made[5].shape)
    made[5] = np.clip(sets.held.images[0].astype(int) + noise, 0, 255).astype(np.uint8)
    other = gather_evidence(replace(sets, synthetic=store_of(made, tmp_path, "set")), OPTIONS, no_progress)
    said = look(other, [(0, 0), (5, 3)])
    assert said.confirmed
    assert said.n_control_beyond == 1


def test_the_report_tells_how_pairs_are_aligned(evidence, monkeypatch) -> None:
    from memorisk.audits.synthetic import flags

    asked = [flags.Flag(0, 0, "asked", 0.0), flags.Flag(1, 1, "asked", 0.0)]
    monkeypatch.setattr(analysis, "flag_pairs", lambda *_: asked)
    names = Pseudonyms.from_options(OPTIONS)
    result = analyse_synthetic(evidence, OPTIONS, names)
    assert result.status == "undecided"
    assert any("lie on an image of 2 training images" in why for why in result.why)
    table = result.tables["alignments"]
    assert list(table["training_image"][table["confirmed"]]) in (
        ["train-0000", "train-0001"],
        ["train-0001", "train-0000"],
    )
    review = result.tables["review"].set_index("synthetic_image")
    assert "% of either side" in review["alignment"]["set-0001"]
    assert "confirmed by alignment" in review["found_by"]["set-0000"]
    sets = evidence.sets
    pictures = pair_pictures(result, parts_of({TRAIN: sets.train, SYNTHETIC: sets.synthetic}, names))
    assert len(pictures.aligned) == 2
    shown = next(iter(pictures.aligned.values()))
    height = evidence.sets.train.images.shape[1]
    assert shown.pixels[height + 2 :, -height:].mean() < 30 * shown.factor  # the difference that is left
    page = render_page(synthetic_page(result, pictures))
    assert "Second look" in page
    assert "turned by 4 degrees" in page
    assert "shows nothing about the set" not in page
    blind = copy.deepcopy(dict(result.summary))
    for of in blind["numbers"]["aligned"]["plants"].values():
        of["successes"] = 0
    page = render_page(synthetic_page(result.replace(summary=blind), pictures))
    assert "It confirms no planted copy here, of any kind" in page
    assert "it confirms no planted copy either" in page
    redacted = render_page(synthetic_page(result, redact=True))
    assert "train-0000" not in redacted
    assert "Second look" in redacted


def test_confirmed_pairs_keep_a_pass_away_and_fail_no_set(evidence) -> None:
    result = analyse_synthetic(evidence, OPTIONS, Pseudonyms.from_options(OPTIONS))
    numbers = from_json(SyntheticSummary, result.summary).numbers
    aligned = AlignedPairs(
        n_images=3, n_pairs=1, n_confirmed_images=1, n_confirmed_patients=1, windows=(WindowCut(1.0, 0.4),),
        expected=0.01, n_null_people=40, n_apart=0, n_control_images=50, n_control_beyond=0, plants={},
    )  # fmt: skip
    before = synthetic_verdict(replace(numbers, aligned=None), OPTIONS)
    for one, words in (
        (aligned, "1 synthetic image lies on an image of 1 training image"),
        (replace(aligned, n_control_beyond=1), "but 1 of 50 synthetic images lies as well on a held-out image"),
        (replace(aligned, n_pairs=0, n_confirmed_images=0), None),
    ):
        after = synthetic_verdict(replace(numbers, aligned=one), OPTIONS)
        assert after["status"] == ("undecided" if words and before["status"] == "pass" else before["status"])
        assert (words is not None) == (len(after["why"]) > len(before["why"]))
        assert words is None or any(words in why for why in after["why"])
