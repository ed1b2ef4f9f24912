"""The in-toto Statement: what it holds, its bytes, and what is refused."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorisk.report.statements import envelope
from memorisk.report.statements.envelope import PREDICATE_TYPE, InTotoStatement, ResourceDescriptor
from memorisk.runs.errors import InputError, one_line

DIGEST = "0123456789abcdef" * 4
ODD_SUBJECTS: tuple[Any, ...] = (
    {"name": "a"},
    {"digest": {"sha256": DIGEST}},
    {"name": "a", "digest": {"sha512": DIGEST}},
    {"name": "a", "digest": DIGEST},
    {"name": 1, "digest": {"sha256": DIGEST}},
)
any_speed = settings(deadline=None, max_examples=60, derandomize=True)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
statements = st.builds(
    InTotoStatement,
    subject=st.dictionaries(names, st.binary(min_size=32, max_size=32), min_size=1, max_size=5).map(
        lambda files: tuple(ResourceDescriptor(name, digest.hex()) for name, digest in files.items())
    ),
    predicate=st.dictionaries(st.text(), values, min_size=1, max_size=3),
)


def statement(**changes: Any) -> InTotoStatement:
    """A small Statement."""
    subject = (ResourceDescriptor("b/1.png", DIGEST), ResourceDescriptor("a.png", "f" * 64))
    return InTotoStatement(**({"subject": subject, "predicate": {"verdict": {"status": "pass"}}} | changes))


def refusal(value: Any) -> str:
    """The one line with which a document is refused."""
    with pytest.raises(InputError) as caught:
        InTotoStatement.from_bytes(json.dumps(value).encode(), "FILE")
    line = str(caught.value)
    assert line.startswith("FILE")
    assert line == one_line(line, 1000)
    return line


def test_the_form_is_that_of_the_specification() -> None:
    assert statement().as_json() == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "a.png", "digest": {"sha256": "f" * 64}},
            {"name": "b/1.png", "digest": {"sha256": DIGEST}},
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"verdict": {"status": "pass"}},
    }


@any_speed
@given(statements)
def test_a_written_statement_is_read_as_it_was(found: InTotoStatement) -> None:
    assert InTotoStatement.from_bytes(found.as_bytes(), "FILE") == found


@any_speed
@given(statements, st.randoms(use_true_random=False))
def test_the_same_statement_gives_the_same_bytes(found: InTotoStatement, order: random.Random) -> None:
    subject, members = [*found.subject], [*found.predicate.items()]
    order.shuffle(subject)
    order.shuffle(members)
    assert InTotoStatement(subject=tuple(subject), predicate=dict(members)).as_bytes() == found.as_bytes()


def test_the_bytes_stay_what_they_are() -> None:
    found = InTotoStatement(
        subject=(ResourceDescriptor("ü.png", DIGEST),), predicate={"b": [1, 0.5, None], "a": "ß\udc80"}
    )
    assert (
        found.as_bytes()
        == (
            '{"_type":"https://in-toto.io/Statement/v1","predicate":{"a":"ß\\udc80","b":[1,0.5,null]},"predicateType":"'
            f'{PREDICATE_TYPE}","subject":[{{"digest":{{"sha256":"{DIGEST}"}},"name":"ü.png"}}]}}'
        ).encode()
    )


def test_unknown_members_and_algorithms_are_ignored() -> None:
    value = statement().as_json()
    value["extension"] = 1
    value["subject"][0] |= {"uri": "https://example.com", "annotations": {"x": 1}}
    value["subject"][0]["digest"]["md5"] = "0" * 32
    assert InTotoStatement.from_json(value, "FILE") == statement()


@pytest.mark.parametrize(
    "digest", ["", "f" * 63, "f" * 65, "F" * 64, "g" * 64, "f" * 64 + "\n", " " + "f" * 63, "٣" * 64]
)
def test_a_digest_is_64_digits_in_lower_case(digest: str) -> None:
    with pytest.raises(InputError, match="64 hexadecimal digits in lower case"):
        ResourceDescriptor("a", digest)
    value = statement().as_json()
    value["subject"][1]["digest"]["sha256"] = digest
    assert "64 hexadecimal digits" in refusal(value)


@pytest.mark.parametrize("name", ["", "a" * 4097, "€" * 1366, "\udc80.png"])
def test_a_name_is_unicode_and_bounded(name: str) -> None:
    with pytest.raises(InputError):
        ResourceDescriptor(name, DIGEST)
    value = statement().as_json()
    value["subject"][1]["name"] = name
    refusal(value)


def test_names_are_unique() -> None:
    twice = (ResourceDescriptor("a", DIGEST), ResourceDescriptor("b", DIGEST), ResourceDescriptor("a", "0" * 64))
    with pytest.raises(InputError, match="the subject a stands there twice"):
        statement(subject=twice)
    value = statement().as_json()
    assert "twice" in refusal(value | {"subject": [*value["subject"], value["subject"][0]]})


def test_nothing_is_empty() -> None:
    with pytest.raises(InputError, match="subjects, not 0"):
        statement(subject=())
    with pytest.raises(InputError, match="predicate"):
        statement(predicate={})
    assert "subjects" in refusal(statement().as_json() | {"subject": []})
    assert "predicate" in refusal(statement().as_json() | {"predicate": {}})


def test_the_numbers_of_subjects_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    value, data = statement().as_json(), statement().as_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(envelope, "MAX_SUBJECTS", 1)
        assert "1 to 1 subjects, not 2" in refusal(value)
    monkeypatch.setattr(envelope, "LARGEST_PAYLOAD", len(data))
    assert InTotoStatement.from_bytes(data, "FILE").as_bytes() == data
    with pytest.raises(InputError, match="FILE is too large"):
        InTotoStatement.from_bytes(data + b" ", "FILE")
    with pytest.raises(InputError, match="too large"):
        statement(predicate={"verdict": {"status": "passed"}}).as_bytes()


@pytest.mark.parametrize("member", ["_type", "subject", "predicateType", "predicate"])
@pytest.mark.parametrize("wrong", [None, 1, "x", [], [1], {}, *([one] for one in ODD_SUBJECTS)])
def test_odd_members_are_refused(member: str, wrong: Any) -> None:
    refusal(statement().as_json() | {member: wrong})


@pytest.mark.parametrize("kind", ["https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1 "])
def test_other_versions_are_refused(kind: str) -> None:
    assert "in-toto Statement of version 1" in refusal(statement().as_json() | {"_type": kind})


def test_another_predicate_is_refused_with_both_types_named() -> None:
    line = refusal(statement().as_json() | {"predicateType": "https://slsa.dev/provenance/v1"})
    assert "https://slsa.dev/provenance/v1" in line
    assert PREDICATE_TYPE in line


@pytest.mark.parametrize(
    "document", [b"[]", b"null", b"1", b'"x"', b"{}", b"", b'{"_type": NaN}', b'{"_type":1,"_type":1}']
)
def test_what_is_no_statement_is_refused(document: bytes) -> None:
    with pytest.raises(InputError, match=r"^FILE"):
        InTotoStatement.from_bytes(document, "FILE")


def test_no_number_that_json_lacks_is_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        statement(predicate={"x": float("nan")}).as_bytes()
