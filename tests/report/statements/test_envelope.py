"""The envelope: the specification's own example, and what is read, refused and ignored."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorisk.report.statements.envelope import (
    LARGEST_ENVELOPE,
    MAX_SIGNATURES,
    Envelope,
    Signature,
    open_envelope,
    pae,
)
from memorisk.report.statements.json_documents import parse_json
from memorisk.runs.errors import InputError, one_line

EXAMPLE = (
    '{"payload": "aGVsbG8gd29ybGQ=", "payloadType": "http://example.com/HelloWorld", "signatures": [{"sig": '
    '"A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="}]}'
)
"""The example of the protocol's page, version 1.0.2, signed there with ECDSA."""
any_speed = settings(deadline=None, max_examples=60, derandomize=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
envelopes = st.builds(
    Envelope,
    payload=st.binary(),
    payload_type=texts,
    signatures=st.lists(st.builds(Signature, sig=st.binary(), keyid=texts), min_size=1, max_size=3).map(tuple),
)


def opened(value: Any) -> Envelope:
    """The envelope of a file with this content."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = open_envelope(data, "FILE")
    assert found is not None
    return found


def refusal(value: Any) -> str:
    """The one line with which such a file is refused."""
    with pytest.raises(InputError) as caught:
        opened(value)
    line = str(caught.value)
    assert line.startswith("FILE")
    assert line == one_line(line)
    return line


def refused(data: bytes) -> bool:
    """Whether a file is no envelope; True only if an error is one line."""
    try:
        return open_envelope(data, "FILE") is None
    except InputError as error:
        return str(error) == one_line(error)


def changed(**members: Any) -> dict[str, Any]:
    """The example with other members; None takes one away."""
    return {name: value for name, value in (json.loads(EXAMPLE) | members).items() if value is not None}


def test_the_example_of_the_specification() -> None:
    found = opened(EXAMPLE.encode())
    assert (found.payload, found.payload_type) == (b"hello world", "http://example.com/HelloWorld")
    assert [(len(one.sig), one.keyid) for one in found.signatures] == [(64, "")]
    assert pae(found.payload_type, found.payload) == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_the_signature_of_the_specification_covers_that_encoding() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    found = opened(EXAMPLE.encode())
    sig = found.signatures[0].sig
    der = utils.encode_dss_signature(int.from_bytes(sig[:32], "big"), int.from_bytes(sig[32:], "big"))
    key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    key.verify(der, pae(found.payload_type, found.payload), ec.ECDSA(hashes.SHA256()))


def test_lengths_are_of_bytes() -> None:
    assert pae("tÿpe", "ä€".encode()) == "DSSEv1 5 tÿpe 5 ä€".encode()
    assert pae("", b"") == b"DSSEv1 0  0 "


@any_speed
@given(texts, st.binary(), texts, st.binary())
def test_different_payloads_or_types_are_never_encoded_alike(first: str, one: bytes, second: str, other: bytes) -> None:
    assert (pae(first, one) == pae(second, other)) == ((first, one) == (second, other))


@any_speed
@given(envelopes)
def test_a_written_envelope_is_read_as_it_was(envelope: Envelope) -> None:
    assert opened(envelope.as_bytes()) == envelope
    assert opened(json.dumps(envelope.as_json(), sort_keys=True, indent=7).encode()) == envelope


@any_speed
@given(st.binary(min_size=1))
def test_both_alphabets_are_read(data: bytes) -> None:
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        assert opened(changed(payload=encode(data).decode())).payload == data


@pytest.mark.parametrize(
    "text",
    [
        "aGVsbG8gd29ybGQ",
        "aGVsbG8gd29ybGR=",
        "aGVsbG8 d29ybGQ=",
        "aGVs\nbG8=",
        "-_-_+/+/",
        "a",
        "====",
        "aGVsbG8=aGVs",
        "é",
    ],
    ids=["unpadded", "stray bits", "space", "line", "mixed", "one", "pads", "goes on", "not ASCII"],
)
def test_other_base64_is_refused(text: str) -> None:
    assert "base64" in refusal(changed(payload=text))
    assert "base64" in refusal(changed(signatures=[{"sig": text}]))


def test_unknown_members_are_ignored_and_a_key_id_may_be_missing() -> None:
    signature = changed()["signatures"][0]
    bare = opened(EXAMPLE.encode())
    assert opened(changed(extension={"x": [1]}, signatures=[signature | {"cert": "x"}])) == bare
    assert opened(changed(signatures=[signature | {"keyid": ""}])) == bare
    assert opened(changed(signatures=[signature | {"keyid": None}])) == bare


@pytest.mark.parametrize("member", ["payload", "payloadType", "signatures"])
@pytest.mark.parametrize("wrong", [None, 1, True, {}, [], [[]], [None], [{}], [{"sig": 1}]])
def test_missing_or_odd_members_are_refused(member: str, wrong: Any) -> None:
    assert "not a DSSE envelope" in refusal(changed(**{member: wrong}))


@pytest.mark.parametrize("document", [b"[]", b"1", b"null", b'"x"'])
def test_what_is_no_object_is_refused(document: bytes) -> None:
    assert "not a DSSE envelope" in refusal(document)


def test_an_envelope_without_signature_is_refused_in_both_directions() -> None:
    assert "signatures" in refusal(changed(signatures=[]))
    with pytest.raises(InputError, match="without envelope"):
        Envelope(payload=b"x", payload_type="t", signatures=())


def test_too_many_signatures_are_refused() -> None:
    signature = changed()["signatures"][0]
    assert len(opened(changed(signatures=[signature] * MAX_SIGNATURES)).signatures) == MAX_SIGNATURES
    assert "signatures" in refusal(changed(signatures=[signature] * (MAX_SIGNATURES + 1)))


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    assert "too large" in refusal(b" " * (LARGEST_ENVELOPE + 1))


def test_a_bare_statement_is_no_envelope_and_both_in_one_are_refused() -> None:
    assert open_envelope(b'{"_type": "https://in-toto.io/Statement/v1"}', "FILE") is None
    for member in ("payload", "payloadType", "signatures"):
        assert "in one" in refusal({"_type": "x", member: changed()[member]})


@pytest.mark.parametrize(
    "document",
    [
        EXAMPLE.replace("{", '{"payload": "eA==", ', 1),
        EXAMPLE.replace('"sig"', '"sig": "eA==", "sig"'),
        EXAMPLE.replace("}]}", '}], "more": {"a": {"b": 1, "b": 1}}}'),
        EXAMPLE.replace("}]}", '}], "more": NaN}'),
        EXAMPLE.replace("}]}", '}], "more": -Infinity}'),
        EXAMPLE.replace("}]}", '}], "more": 1e999}'),
        EXAMPLE + "{}",
        EXAMPLE[:-1],
        "",
        "\ufeff" + EXAMPLE,
        EXAMPLE.replace("}]}", '}], "more": ' + "[" * 200_000),
        EXAMPLE.replace("}]}", '}], "more": ' + "1" * 5_000 + "}"),
    ],
)
def test_json_that_readers_could_take_differently_is_refused(document: str) -> None:
    assert "is not valid JSON" in refusal(document.encode())


def test_text_that_is_no_unicode_is_refused() -> None:
    assert "is not valid JSON" in refusal(EXAMPLE.replace("Hello", "\xff").encode("latin-1"))
    assert "not Unicode" in refusal(EXAMPLE.replace("Hello", "\\udc80").encode())
    assert "not Unicode" in refusal(EXAMPLE.replace('"sig"', '"keyid": "\\ud800", "sig"').encode())


@any_speed
@given(st.binary() | values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused_in_one_line(data: bytes) -> None:
    assert refused(data) or opened(data).signatures


@any_speed
@given(values)
def test_strict_json_is_json(value: Any) -> None:
    assert parse_json(json.dumps(value).encode(), "FILE") == value


def test_reading_a_statement_loads_no_library() -> None:
    code = (
        "import sys; from memorisk.report.statements import envelope, signatures\n"
        "print([m for m in ('cryptography', 'numpy', 'torch', 'pandas') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
