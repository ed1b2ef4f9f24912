"""The envelope of a signed statement (DSSE, version 1.0.2) and the in-toto Statement, version 1, that it holds.

DSSE: https://github.com/secure-systems-lab/dsse; Statement: https://in-toto.io/Statement/v1. Only Python's standard
library is needed. `memorisk.report.statements.signatures` signs and verifies.

A Statement ties a *predicate*, here a privacy statement, to *subjects*, here the released files, by name and
SHA-256. Its bytes are the payload of an envelope, or an unsigned file of their own. As the specification
requires, members and digest algorithms that are not known here are ignored when reading. Beyond it, every subject must
have a name and a SHA-256, names must be unique, and the predicate must not be empty.

A signature covers ``PAE(payloadType, payload)``: the exact bytes of the payload, before anything parses them, and
the type that determines how to parse them. The envelope itself (order of members, spaces, ``keyid``) is not signed. The
specification decides these cases: both base64 alphabets are read, unknown members are ignored, a missing ``keyid``
is an empty one, and ``payload``, ``payloadType``, ``signatures`` and ``sig`` must be present. Its schema requires
at least one signature, so an unsigned statement is not an envelope with an empty list: it is the bare in-toto
Statement.

This module is stricter in two points. Repeated members are errors, and so is base64 that does not encode back to
itself (missing padding, stray bits or characters, mixed alphabets).
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from memorisk.report.statements.json_documents import parse_json
from memorisk.runs.errors import InputError, one_line

PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""Type of a payload that is an in-toto Statement in JSON."""
LARGEST_PAYLOAD = 1 << 27
"""Largest payload in bytes: a Statement about one million files takes 100 million, and their names are added."""
LARGEST_ENVELOPE = LARGEST_PAYLOAD * 4 // 3 + (1 << 20)
"""Largest envelope in bytes: the largest payload in base64, and a megabyte for everything else."""
MAX_SIGNATURES = 64
"""Largest number of signatures, more than a release has signers; each is tried with each key, over the payload."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One signature of an envelope."""

    sig: bytes
    """Signature in raw bytes."""
    keyid: str = ""
    """Id of the key that signed. It is not signed itself: it is a hint for messages and never decides anything."""


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Payload with its signatures."""

    payload: bytes
    payload_type: str
    """Type of the payload, which determines how to parse it."""
    signatures: tuple[Signature, ...]
    """Signatures of the payload, at least one."""

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
        """Build an envelope from parsed JSON; its signatures are not verified here.

        Args:
            value: Parsed document.
            name: Name of the document in messages.

        Raises:
            InputError: The document is not a DSSE envelope, or too large.
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
        payload_type: Type of the payload, which determines how to parse it.
        payload: Bytes of any content.

    Example:
        >>> pae("http://example.com/HelloWorld", b"hello world")
        b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def open_envelope(data: bytes, name: str) -> Envelope | None:
    """Read the envelope of a statement's file; None if the file is a bare, unsigned in-toto Statement.

    Args:
        data: Bytes of the file.
        name: Name of the file in messages.

    Raises:
        InputError: The file is neither, both, or too large.
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


STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://github.com/memorisk/memorisk/privacy-statement/v2"
"""URI that identifies the form of a privacy statement. It need not resolve; another form gets another URI."""
MAX_SUBJECTS = 1_000_000
"""Largest number of subjects: five times the largest set of images that an audit was measured on."""
MAX_NAME_BYTES = 4096
"""Largest length of a name in bytes: the longest path that Linux opens (PATH_MAX)."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True, slots=True)
class ResourceDescriptor:
    """File that is a subject of a Statement.

    Raises:
        InputError: The name is empty, too long or not Unicode, or the checksum is not 64 hexadecimal digits.
    """

    name: str
    """Name of the file, relative to the released folder, with ``/`` between folders."""
    sha256: str
    """SHA-256 of the file's bytes: 64 hexadecimal digits in lower case."""

    def __post_init__(self) -> None:
        try:
            length = len(self.name.encode("utf-8"))
        except UnicodeEncodeError:
            raise InputError(f"the file name {one_line(self.name, 80)} is not Unicode: rename the file") from None
        if not 1 <= length <= MAX_NAME_BYTES:
            raise InputError(f"a subject's name must have 1 to {MAX_NAME_BYTES} bytes, not {length}")
        if not _SHA256.fullmatch(self.sha256):
            raise InputError(f"the SHA-256 of {one_line(self.name, 80)} must be 64 hexadecimal digits in lower case")


@dataclass(frozen=True, kw_only=True)
class InTotoStatement:
    """Privacy statement with the files that are its subjects.

    Raises:
        InputError: The statement has no subject or too many, two have the same name, or the predicate is empty.
    """

    subject: tuple[ResourceDescriptor, ...]
    """Files of the statement, kept in the order of their names."""
    predicate: Mapping[str, Any]
    """Privacy statement in JSON's own types."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.subject) <= MAX_SUBJECTS:
            raise InputError(f"a statement has 1 to {MAX_SUBJECTS:,} subjects, not {len(self.subject):,}")
        ordered = tuple(sorted(self.subject))
        for one, following in pairwise(ordered):
            if one.name == following.name:
                raise InputError(f"the subject {one_line(one.name, 80)} stands there twice")
        if not self.predicate:
            raise InputError("the predicate of a statement must not be empty")
        object.__setattr__(self, "subject", ordered)

    def as_json(self) -> dict[str, Any]:
        """Return the Statement as JSON has it."""
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": one.name, "digest": {"sha256": one.sha256}} for one in self.subject],
            "predicateType": PREDICATE_TYPE,
            "predicate": dict(self.predicate),
        }

    def as_bytes(self) -> bytes:
        """Return the payload to sign: the same Statement gives the same bytes.

        The bytes are UTF-8, members sorted by name, no spaces. A verifier never rebuilds them: it uses those it got.

        Raises:
            InputError: The bytes are more than a reader accepts.
            ValueError: The predicate holds NaN or an infinite number.
        """
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        data = text.encode("utf-8", errors="backslashreplace")  # what is not Unicode becomes an escape of JSON
        return _bounded(data, "the statement")

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Self:
        """Parse a payload. Verify its signature first: the parser is not meant for bytes of unknown origin.

        Args:
            data: Payload of an envelope, or file of a bare Statement.
            name: Name of the document in messages.

        Raises:
            InputError: The same errors as `from_json`, or the data are not JSON, or too large.
        """
        return cls.from_json(parse_json(_bounded(data, name), name), name)

    @classmethod
    def from_json(cls, value: Any, name: str) -> Self:
        """Build a Statement from parsed JSON.

        Args:
            value: Parsed document.
            name: Name of the document in messages.

        Raises:
            InputError: The document is not an in-toto Statement of version 1 that carries a privacy statement.
        """
        members = value if isinstance(value, dict) else {}
        _require_type(members, "_type", STATEMENT_TYPE, f"{name} is not an in-toto Statement of version 1")
        _require_type(members, "predicateType", PREDICATE_TYPE, f"{name} carries no privacy statement known here")
        subject, predicate = members.get("subject"), members.get("predicate")
        if not isinstance(subject, list) or not isinstance(predicate, dict):
            raise InputError(f"{name} is damaged: subject must be a list and predicate an object")
        try:
            return cls(subject=tuple(_descriptor(one) for one in subject), predicate=predicate)
        except InputError as error:
            raise InputError(f"{name} is damaged: {error}") from None


def _bounded(data: bytes, name: str) -> bytes:
    """Refuse more bytes than a reader accepts."""
    if len(data) > LARGEST_PAYLOAD:
        raise InputError(f"{name} is too large: {len(data):,} bytes, at most {LARGEST_PAYLOAD:,}")
    return data


def _require_type(members: Mapping[str, Any], member: str, accepted: str, problem: str) -> None:
    """Refuse a document of another type."""
    if members.get(member) != accepted:
        raise InputError(f"{problem}: {member} is {one_line(members.get(member), 100)}, not {accepted}")


def _descriptor(value: Any) -> ResourceDescriptor:
    """Build a subject from parsed JSON."""
    members = value if isinstance(value, dict) else {}
    digest = members.get("digest")
    sha256 = digest.get("sha256") if isinstance(digest, dict) else None
    name = members.get("name")
    if not isinstance(name, str) or not isinstance(sha256, str):
        raise InputError("every subject must have a name and a digest with sha256")
    return ResourceDescriptor(name, sha256)
