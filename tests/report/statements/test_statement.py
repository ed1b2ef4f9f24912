"""The form of a statement: whole or refused, and every violation one that the library jsonschema sees, too."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from memorisk.images.pixel_form import PixelForm
from memorisk.report.page import render_page
from memorisk.report.statements.envelope import InTotoStatement, ResourceDescriptor
from memorisk.report.statements.json_documents import load_schema, violations
from memorisk.report.statements.model_card import HEADING, escaped, model_card
from memorisk.report.statements.officer.page import officer_page
from memorisk.report.statements.statement import (
    SCHEMA,
    AuditStatement,
    Figure,
    InvalidStatementError,
    Method,
    Part,
    Released,
    StatedReason,
    Statement,
    Subject,
    Verdict,
    content_sha256,
    read_statement,
)
from memorisk.runs.checksums import listing_sha256
from memorisk.runs.errors import InputError

HOSTILE = "<script>x</script> [a](https://e.example) **b** | `c` www.e.example a@e.example\n# d \u202e"


def reason(text: str, code: str = "listed-patients", bears_on: str = "doubt") -> StatedReason:
    """A reason of a run, in the same words for everybody."""
    return StatedReason(code=code, bears_on=bears_on, text=text, plain=text)


def audit(**changes: Any) -> AuditStatement:
    """What a run might say."""
    told = AuditStatement(
        kind="synthetic", question="q?", status="pass", gate="copied", reasons=(reason("w"),), what_would_decide=(),
        subject=Subject(what="images", sha256=("0" * 64,)),
        data=(Part(part="training", fingerprint="f" * 32, images=9, units=7),), units="patients", n_units=7,
        n_models=None, level=0.1, correction="none", not_examined=("n",), assumptions=("a",), limits=("l",),
        figures=(Figure(name="listed", title="Listed", value=0.5, low=0.25, high=float("nan"), n=7, unit="patients"),),
        method=Method(name="m", source="s", page="p.md"), seeds=(0,), settings={"size": 64}, versions={},
        run_sha256="1" * 64,
    )  # fmt: skip
    return replace(told, **changes)


def statement(**changes: Any) -> Statement:
    """A statement of one run."""
    listing = {"a.png": "2" * 64, "b/c.png": "3" * 64}
    released = (
        Released(
            what="images", form="folder", listing=listing, sha256=listing_sha256(listing), files=2, bytes=None,
            pixels=PixelForm(8, 8, 1, 8), audits=(0,),
        ),
    )  # fmt: skip
    told = Statement(memorisk="0", verdict=Verdict(status="pass", why=("w",)), released=released, audits=(audit(),))
    return replace(told, **changes)


def spoilt(value: Any, here: Any = None) -> Iterator[Any]:
    """The same with one thing wrong in it, in every place and several ways."""
    here = value if here is None else here
    keys = list(here) if isinstance(here, dict) else range(len(here))
    for key in keys:
        before = here[key]
        for wrong in (None, -1, True, "Z", [], {}, 0.5, [None], {"x": 1}, "pass"):
            here[key] = wrong
            yield copy.deepcopy(value)
        if isinstance(here, dict):
            del here[key]
            yield copy.deepcopy(value)
            here[key] = before
            here["unknown"] = 1
            yield copy.deepcopy(value)
            del here["unknown"]
            rest = {k: here.pop(k) for k in list(here) if k != key}  # the order stays
            here |= rest
        here[key] = before
        if isinstance(before, dict | list):
            yield from spoilt(value, before)


def test_violations_are_those_of_jsonschema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = load_schema(SCHEMA)
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    whole = dict(statement().as_in_toto().predicate)
    assert judge.is_valid(whole)
    verdicts = [(any(violations(one, schema)), not judge.is_valid(one)) for one in spoilt(whole)]
    assert len(verdicts) > 500
    assert [ours for ours, _ in verdicts] == [theirs for _, theirs in verdicts]
    assert {theirs for _, theirs in verdicts} == {True, False}


def test_a_schema_with_an_unknown_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="maxItems"):
        list(violations([], {"maxItems": 1}))


def test_a_statement_is_read_as_it_was_written() -> None:
    told = statement()
    data = told.as_in_toto().as_bytes()
    assert read_statement(data, "s.json") == told
    assert {one["name"] for one in json.loads(data)["subject"]} == {"images/a.png", "images/b/c.png", "runs/1"}
    assert told.audits[0].figures[0].high is None  # no NaN


@pytest.mark.parametrize("path", [("verdict", "status"), ("audits", 0, "status"), ("audits", 0, "figures", 0, "value")])
def test_what_was_changed_by_hand_is_not_whole(path: tuple) -> None:
    whole = statement(verdict=Verdict(status="fail", why=())).as_in_toto()
    found: Any = json.loads(json.dumps(whole.predicate))
    *above, last = path
    place: Any = found
    for key in above:
        place = place[key]
    place[last] = {"status": "undecided", "value": 0.75}[last]
    with pytest.raises(InvalidStatementError, match="was changed since"):
        Statement.from_in_toto(replace(whole, predicate=found), "s.json")
    found.pop("content_sha256")
    with pytest.raises(InvalidStatementError, match="content_sha256 is missing"):
        Statement.from_in_toto(replace(whole, predicate=found), "s.json")
    found["content_sha256"] = content_sha256(found, whole.subject)
    assert Statement.from_in_toto(replace(whole, predicate=found), "s.json")


def test_a_part_of_a_release_names_audits_that_are_there() -> None:
    whole = statement().as_in_toto()
    for places in ([99], [-1]):
        told = json.loads(json.dumps({k: v for k, v in whole.predicate.items() if k != "content_sha256"}))
        told["released"][0]["audits"] = places
        forged = {**told, "content_sha256": content_sha256(told, whole.subject)}
        with pytest.raises(InvalidStatementError, match="is not whole"):
            Statement.from_in_toto(replace(whole, predicate=forged), "s.json")
    with_point = json.loads(json.dumps({k: v for k, v in whole.predicate.items() if k != "content_sha256"}))
    with_point["released"][0]["audits"] = [0.0]  # an integer in JSON
    again = {**with_point, "content_sha256": content_sha256(with_point, whole.subject)}
    released = Statement.from_in_toto(replace(whole, predicate=again), "s.json").released
    assert [type(number) for number in released[0].audits] == [int]


def test_other_files_under_the_same_statement_are_not_whole() -> None:
    whole = statement().as_in_toto()
    first, *others = whole.subject
    for subject in ((replace(first, sha256="4" * 64), *others), tuple(others)):
        with pytest.raises(InvalidStatementError, match="was changed since"):
            Statement.from_in_toto(replace(whole, subject=subject), "s.json")
        told = {k: v for k, v in whole.predicate.items() if k != "content_sha256"}
        forged = {**told, "content_sha256": content_sha256(told, subject)}
        with pytest.raises(InvalidStatementError, match="its files are not those of images"):
            Statement.from_in_toto(replace(whole, subject=subject, predicate=forged), "s.json")


def bare(predicate: dict) -> str:
    """An in-toto Statement of some predicate."""
    return InTotoStatement(subject=(ResourceDescriptor("a", "0" * 64),), predicate=predicate).as_bytes().decode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"a": NaN}', "is not valid JSON"),
        ("\udcff", "is not valid JSON"),
        ("[]", "is not an in-toto Statement"),
        ('{"format": "memorisk privacy statement", "format_version": 1}', "is not an in-toto Statement"),
        (bare({"a": 1}), "is no privacy statement"),
        (bare({"format": "memorisk privacy statement", "format_version": 3}), "format version 3"),
    ],
)
def test_what_is_no_statement_is_refused_in_a_line(text: str, said: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    with pytest.raises(InputError, match=said) as error:
        read_statement(data, "s.json")
    assert not isinstance(error.value, InvalidStatementError)
    assert str(error.value).isprintable()


def test_the_card_says_the_same_and_nothing_in_it_is_markup() -> None:
    hostile = audit(reasons=(reason(HOSTILE),), correction=HOSTILE, limits=(HOSTILE,), question=HOSTILE,
                    data=(Part(part=HOSTILE, fingerprint=HOSTILE),))  # fmt: skip
    card = model_card(statement(audits=(hostile,), verdict=Verdict(status="undecided", why=(HOSTILE,))))
    assert card.startswith(f"{HEADING}\n\n**Could not be decided.** That is not a pass.\n")
    assert "<" not in card
    assert "](" not in card.replace("\\]", "")
    assert "://" not in card
    assert "\n# d" not in card
    assert "\u202e" not in card
    assert "| Listed | 0.5 | at least 0.25 |  | 7 patients |" in card
    assert f"`{statement().released[0].sha256}`" in card
    assert escaped("a | b\n- c") == "a \\| b\\\\n- c"


def test_a_list_that_was_not_possible_is_not_tested() -> None:
    """A 0 would read as a finding; other figures without a value are left out."""
    figures = (Figure(name="flagged", title="Flagged"), Figure(name="auc/loss", title="AUC"))
    card = model_card(statement(audits=(audit(kind="classifier", figures=figures),)))
    assert "| Flagged | not tested |" in card
    assert "AUC" not in card


@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_only_a_pass_is_called_one(status: str) -> None:
    card = model_card(statement(audits=(audit(status=status),), verdict=Verdict(status=status, why=("w",))))
    assert ("**Nothing was found of what was looked for.**" in card) == (status == "pass")
    assert ("generated images: nothing was found of what was looked for" in card) == (status == "pass")
    assert "assed" not in card


def attacked(limits: float | None = None, **values: float) -> str:
    """What the officer's page counts of a classifier's attacks."""
    figures = tuple(
        Figure(
            name=name.replace("__", "/"),
            title=name,
            value=value,
            low=None if limits is None else value - limits,
            high=None if limits is None else value + limits,
        )
        for name, value in values.items()
    )
    one = audit(kind="classifier", figures=(*figures, Figure(name="classes_tested", title="t", value=1)))
    return render_page(officer_page(statement(audits=(one,))))


def test_an_outsider_is_not_said_to_have_the_twin() -> None:
    """What needs a model without the image is no outsider's attack; the statement counts the two apart."""
    both = attacked(auc__loss_threshold=0.53, reference_auc__rmia_offline=0.55, twin_auc__differential=0.62)
    assert "an outsider names the right one in 53 of 100 cases, a person who also has models without" in both
    assert "models without the image in 62; guessing is right in 50." in both
    assert "models without the image" not in attacked(auc__loss_threshold=0.53)
    assert "an outsider names" not in attacked(twin_auc__differential=0.62)


def test_an_attack_on_the_file_alone_is_an_outsiders_and_comes_with_its_limits() -> None:
    page = attacked(0.05, target_auc__loss_threshold=0.91, target_auc__sima=0.94, target_reference_auc__lira=0.9)
    assert "an outsider names the right one in 94 of 100 cases (89 to 99), a person who also has models" in page
    assert "models without the image in 90 (85 to 95); guessing is right in 50." in page


def test_people_are_counted_with_what_became_of_them() -> None:
    part = Part(part="all images of the audit", fingerprint="f" * 32, images=900, units=674)
    page = render_page(officer_page(statement(audits=(audit(kind="classifier", data=(part,), n_units=478),))))
    assert "674 patients, of whom 478 could be judged" in page
