"""Families that a filter promises by default, and what their thresholds leave out of new people."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.filter import choice
from memorisk.audits.filter.choice import MOST_NEW_PEOPLE
from memorisk.audits.filter.result import FamilyCost, FilterSummary
from memorisk.audits.filter.run import FilterPlan, filter_synthetic
from memorisk.audits.release.set_descriptions import _promise_words, _unpromised
from memorisk.audits.release.statement import make_statement
from memorisk.cli.show.runs import show_plan
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.release.test_officer_page import visible_text
from tests.audits.synthetic.making import blended, digits
from tests.commands import own_cache, refusal

N_NEW = 130
HOW = {"detector": "pixels", "auditor": "pca:16", "one_image_per_patient": True}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Digits of training and new people, and blends of others, which copy nobody."""
    folder = tmp_path_factory.mktemp("choice")
    with own_cache(folder), chdir(folder):
        images = digits()
        parts = {"train": images[:150], "new": images[150 : 150 + N_NEW], "set": blended(images[600:], 60)}
        for name, chosen in parts.items():
            np.savez(f"{name}.npz", images=chosen)
        yield {name: f"{name}.npz" for name in parts}


def filtered(sets: dict[str, str], out: str, **settings) -> Result | FilterPlan:
    return filter_synthetic(sets["train"], sets["set"], out, calibration=sets["new"], **HOW | settings)


def test_the_default_promises_what_can_be_told_and_keeps_honest_images(
    sets: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    plan = filtered(sets, "out", dry_run=True)
    assert isinstance(plan, FilterPlan)
    assert not Path("out").exists()
    costs: dict[str, list[FamilyCost]] = {}
    for cost in plan.costs:
        assert cost.new is not None
        assert cost.synthetic is not None
        assert (cost.new.trials, cost.synthetic.trials) == (N_NEW, 60)
        assert cost.promised == (cost.new.estimate <= MOST_NEW_PEOPLE)
        costs.setdefault(cost.family.partition(" (")[0], []).append(cost)
    promised = {name for name, of_one in costs.items() if of_one[-1].promised}
    assert promised
    assert promised != set(costs)  # pixels do not tell flipped copies
    for of_one in costs.values():  # the strongest copies that can be told: what is stronger costs too much
        assert not any(cost.promised for cost in of_one[:-1])
    show_plan(plan, as_json=False)
    told = capsys.readouterr().out
    assert told.count("not promised") == sum(not cost.promised for cost in plan.costs)
    show_plan(plan, as_json=True)
    assert '"promised"' in capsys.readouterr().out

    found = filtered(sets, "out", plant_kinds=("exact",))
    assert isinstance(found, Result)
    numbers = from_json(FilterSummary, found.summary).numbers
    assert numbers.promise.costs == plan.costs  # the dry run told what the run does
    assert set(numbers.promise.kinds) == promised
    assert numbers.sets.n_kept_images > 50
    assert numbers.real_rejected is not None
    assert numbers.real_rejected.estimate == max(cost.new.estimate for cost in plan.costs if cost.promised and cost.new)
    given = plan.families[0].needed
    assert numbers.promise.shared_by == 30
    assert found.tables["guarantees"]["needed"].unique().tolist() == [given]
    for name in set(costs) - promised:
        assert name in numbers.promise.not_promised
    (limit,) = _unpromised(replace(numbers.promise, guarantee="promised"))
    assert "flipped" in limit
    assert _promise_words(replace(numbers.promise, guarantee=None)) == []
    page = Path("out/report.html").read_text()
    assert page.count("not promised") >= sum(not cost.promised for cost in plan.costs)
    _no_part_claims_what_is_not_promised(numbers.promise.not_promised)


def _no_part_claims_what_is_not_promised(not_promised: tuple[str, ...]) -> None:
    """Read the officer's page of a pass whose audit planted exact copies alone: it claims those, and no family."""
    assert {"flipped", "cropped", "pasted"} <= set(not_promised)
    before, _, after = visible_text(make_statement("out")).partition("What was not looked at")
    sentence = f"The filter does not promise to leave out copies of these kinds: {', '.join(not_promised)}."
    assert sentence in after.partition("What to do next")[0]
    says_nothing = re.search(r"It says nothing of copies that are ([^.]*)[.]", before)
    assert says_nothing is not None
    assert {"mirrored", "cropped", "pasted in part"} <= set(re.split(", | or ", says_nothing[1]))
    claims = re.sub(r"(It says nothing of copies|Other kinds, mostly missed)[^.]*[.]", "", before)
    assert "No sign was found that kept images are copies of images of people" in claims
    assert "Tried: copies that are unchanged, and no others" in claims
    assert "Noticed: 40 of 40 unchanged." in claims
    assert not [kind for kind in ("mirrored", "cropped", "pasted", *not_promised) if kind in claims]


def test_named_families_are_promised_at_any_cost(sets: dict[str, str]) -> None:
    plan = filtered(sets, "named", families=("flipped", "darkening:1.1"), dry_run=True)
    assert isinstance(plan, FilterPlan)
    dear, cheap = plan.costs
    assert dear.promised
    assert cheap.promised
    assert dear.new is not None
    assert dear.new.estimate > MOST_NEW_PEOPLE
    found = filtered(sets, "named", families=("flipped", "darkening:1.1"))
    assert isinstance(found, Result)
    assert found.verdict["kinds"] == ["flipped", "darkening"]
    assert found.verdict["shared_by"] == 2


def test_too_few_people_for_every_strength_choose_among_whole_families(sets: dict[str, str]) -> None:
    images = np.load("new.npz")["images"][:110]
    np.savez("few.npz", images=images)
    plan = filtered(sets | {"new": "few.npz"}, "few", dry_run=True)
    assert isinstance(plan, FilterPlan)
    assert len(plan.costs) == 9
    np.savez("fewer.npz", images=images[:80])
    fewer = filtered(sets | {"new": "fewer.npz"}, "fewer", dry_run=True)
    assert isinstance(fewer, FilterPlan)
    assert (fewer.missing > 0, fewer.costs) == (True, ())


def test_where_no_family_can_be_told_the_run_ends_in_one_line_and_the_plan_shows_why(
    sets: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "MOST_NEW_PEOPLE", -1.0)
    plan = filtered(sets, "none", dry_run=True)
    assert isinstance(plan, FilterPlan)
    assert len(plan.costs) == 30
    assert not any(cost.promised for cost in plan.costs)
    show_plan(plan, as_json=False)
    assert "no family of copies can be distinguished from likeness" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InputError, match="give another --detector, or --families"):
        filtered(sets, "none")
    assert not Path("none/kept").exists()


def test_an_unknown_family_is_refused_before_pytorch_is_loaded(
    sets: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Did you mean 'noise'" in refusal(capsys, "filter", sets["train"], sets["set"], "out", "--families", "nose")
    code = (
        "import sys\nfrom memorisk.audits.filter.options import filter_options\n"
        "try:\n    filter_options({'families': ('nose',)})\nexcept Exception as e:\n    print(type(e).__name__)\n"
        "print('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["InputError", "False"]
