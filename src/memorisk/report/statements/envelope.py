"""The envelope of a signed statement: DSSE, version 1.0.2 (https://github.com/secure-systems-lab/dsse).

A signature covers ``PAE(payloadType, payload)``: the exact bytes of the payload, before anything parses them, and the
type that says how to parse them. The envelope itself (order of members, spaces, ``keyid``) is not signed.

The specification decides these cases: both base64 alphabets are read, unknown members are ignored, a missing ``keyid``
is an empty one, and ``payload``, ``payloadType``, ``signatures`` and ``sig`` must be present. Its schema asks for at
least one signature, so an unsigned statement is not an envelope with an empty list: it is the bare in-toto Statement.

This module is stricter in two points. Repeated members are errors, and so is base64 that does not encode back to
itself (missing padding, stray bits or characters, mixed alphabets).

Only Python's standard library is needed. `memorisk.report.statements.signatures` signs and verifies.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Self

from memorisk.report.statements.strict_json import parse_json
from memorisk.runs.errors import InputError, one_line

PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""The payload is an in-toto Statement in JSON."""
LARGEST_PAYLOAD = 1 << 27
"""Bytes: a Statement about one million files takes 100 million, and their names come on top."""
LARGEST_ENVELOPE = LARGEST_PAYLOAD * 4 // 3 + (1 << 20)
"""Bytes: the largest payload in base64, and a megabyte for everything else."""
MAX_SIGNATURES = 64
"""More than a release has signers. Each signature is tried with each key, over the whole payload."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One signature of an envelope."""

    sig: bytes
    """The signature itself."""
    keyid: str = ""
    """Which key signed. Nobody signed this: it is a hint for messages and never decides anything."""


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A payload and its signatures."""

    payload: bytes
    payload_type: str
    """How to parse the payload."""
    signatures: tuple[Signature, ...]
    """At least one."""

    def __post_init__(self) -> None:
        if not self.signatures:
            raise InputError("an envelope needs a signature: an unsigned statement is written without envelope")
        if len(self.signatures) > MAX_SIGNATURES:
            raise InputError(f"an envelope holds at most {MAX_SIGNATURES} signatures, not {len(self.signatures):,}")
        if len(self.payload) > LARGEST_PAYLOAD:
            raise InputError(f"an envelope holds at most {LARGEST_PAYLOAD:,} bytes, not {len(self.payload):,}")

    def as_json(self) -> dict[str, Any]:
        """Return the envelope as JSON has it, in standard base64."""
        return {
            "payloadType": self.payload_type,
            "payload": base64.b64encode(self.payload).decode("ascii"),
            "signatures": [
                {"keyid": one.keyid, "sig": base64.b64encode(one.sig).decode("ascii")} for one in self.signatures
            ],
        }

    def as_bytes(self) -> bytes:
        """Return the bytes of its file: the same envelope gives the same bytes."""
        return (json.dumps(self.as_json(), indent=2) + "\n").encode("ascii")

    @classmethod
    def from_json(cls, value: Any, name: str) -> Self:
        """Build an envelope from parsed JSON. Its signatures are not verified here.

        Args:
            value: The parsed document.
            name: What messages call it.

        Raises:
            InputError: It is not a DSSE envelope, or too large.
        """
        members = _members(value, name)
        signatures = members.get("signatures")
        if not isinstance(signatures, list) or not 1 <= len(signatures) <= MAX_SIGNATURES:
            raise InputError(f"{name} is not a DSSE envelope: signatures must be a list of 1 to {MAX_SIGNATURES}")
        return cls(
            payload=_decoded(members, "payload", name),
            payload_type=_text(members, "payloadType", name),
            signatures=tuple(_signature(one, name) for one in signatures),
        )


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a signature covers, the pre-authentication encoding.

    ``"DSSEv1" SP LEN(type) SP type SP LEN(payload) SP payload``, lengths in bytes, as decimal numbers.

    Args:
        payload_type: How to parse the payload.
        payload: Any bytes.

    Example:
        >>> pae("http://example.com/HelloWorld", b"hello world")
        b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def open_envelope(data: bytes, name: str) -> Envelope | None:
    """Read the envelope of a statement's file; None if the file is a bare in-toto Statement, which nobody signed.

    Args:
        data: The bytes of the file.
        name: What messages call it.

    Raises:
        InputError: It is neither, both, or too large.
    """
    if len(data) > LARGEST_ENVELOPE:
        raise InputError(f"{name} is too large for a statement: at most {LARGEST_ENVELOPE:,} bytes")
    value = parse_json(data, name)
    bare = isinstance(value, dict) and "_type" in value
    if bare and not value.keys() & {"payload", "payloadType", "signatures"}:
        return None
    if bare:
        raise InputError(f"{name} is an envelope and a bare statement in one: readers would not agree on it")
    return Envelope.from_json(value, name)


def _signature(value: Any, name: str) -> Signature:
    """Build one signature from parsed JSON."""
    members = _members(value, name)
    keyid = "" if members.get("keyid") is None else _text(members, "keyid", name)
    return Signature(sig=_decoded(members, "sig", name), keyid=keyid)


def _members(value: Any, name: str) -> dict[str, Any]:
    """Return the members of a JSON object."""
    if not isinstance(value, dict):
        raise InputError(f"{name} is not a DSSE envelope: it holds a {type(value).__name__} where an object must be")
    return value


def _text(members: dict[str, Any], member: str, name: str) -> str:
    """Return a member that must be text, and text that UTF-8 can encode."""
    value = members.get(member)
    if not isinstance(value, str):
        raise InputError(f"{name} is not a DSSE envelope: {member} must be text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{name} is not a DSSE envelope: {member} is not Unicode ({one_line(value, 40)})") from None
    return value


def _decoded(members: dict[str, Any], member: str, name: str) -> bytes:
    """Decode a member in standard or URL-safe base64, with padding (RFC 4648)."""
    text = _text(members, member, name)
    alphabet = b"-_" if "-" in text or "_" in text else b"+/"
    try:
        data = base64.b64decode(text.encode("ascii"), altchars=alphabet, validate=True)
        exact = base64.b64encode(data, altchars=alphabet).decode("ascii") == text
    except (binascii.Error, UnicodeEncodeError):
        exact, data = False, b""
    if not exact:
        raise InputError(f"{name} is not a DSSE envelope: {member} is not base64 as RFC 4648 has it")
    return data
