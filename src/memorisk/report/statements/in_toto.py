"""What a statement is about: an in-toto Statement, version 1 (https://in-toto.io/Statement/v1).

A Statement ties a *predicate*, here a privacy statement, to *subjects*, here the released files, by name and SHA-256.
Its bytes are the payload of an envelope (`memorisk.report.statements.envelope`), or stand alone where nobody signs.

As the specification asks, members and digest algorithms that are not known here are ignored when reading. Beyond it,
every subject must have a name and a SHA-256, names must be unique, and the predicate must not be empty.

Only Python's standard library is needed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from memorisk.report.statements.envelope import LARGEST_PAYLOAD
from memorisk.report.statements.strict_json import parse_json
from memorisk.runs.errors import InputError, one_line

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://github.com/memorisk/memorisk/privacy-statement/v2"
"""Identifies the form of a privacy statement. It need not resolve; another form gets another URI."""
MAX_SUBJECTS = 1_000_000
"""Five times the largest set of images that an audit was measured on."""
MAX_NAME_BYTES = 4096
"""The longest path that Linux opens (PATH_MAX)."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True, slots=True)
class ResourceDescriptor:
    """A file that a Statement is about.

    Raises:
        InputError: The name is empty, too long or not Unicode, or the checksum is not 64 hexadecimal digits.
    """

    name: str
    """Of the file, relative to what is released, with ``/`` between folders."""
    sha256: str
    """Of its bytes: 64 hexadecimal digits in lower case."""

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
    """A privacy statement and the files that it is about.

    Raises:
        InputError: There is no subject, there are too many, two have the same name, or the predicate is empty.
    """

    subject: tuple[ResourceDescriptor, ...]
    """The files, kept in the order of their names."""
    predicate: Mapping[str, Any]
    """The privacy statement, of JSON's own types."""

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

        UTF-8, members sorted by name, no spaces. A verifier never rebuilds these bytes: it verifies those it got.

        Raises:
            InputError: They are more than a reader accepts.
            ValueError: The predicate holds NaN or an infinite number.
        """
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        data = text.encode("utf-8", errors="backslashreplace")  # what is not Unicode becomes an escape of JSON
        return _bounded(data, "the statement")

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Self:
        """Parse a payload. Verify its signature first: the parser is not for bytes of just anybody.

        Args:
            data: The payload of an envelope, or the file of a bare Statement.
            name: What messages call it.

        Raises:
            InputError: As `from_json`, or it is not JSON, or too large.
        """
        return cls.from_json(parse_json(_bounded(data, name), name), name)

    @classmethod
    def from_json(cls, value: Any, name: str) -> Self:
        """Build a Statement from parsed JSON.

        Args:
            value: The parsed document.
            name: What messages call it.

        Raises:
            InputError: It is not an in-toto Statement of version 1 that carries a privacy statement.
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


def _require_type(members: Mapping[str, Any], member: str, known: str, problem: str) -> None:
    """Refuse a document of another type."""
    if members.get(member) != known:
        raise InputError(f"{problem}: {member} is {one_line(members.get(member), 100)}, not {known}")


def _descriptor(value: Any) -> ResourceDescriptor:
    """Build a subject from parsed JSON."""
    members = value if isinstance(value, dict) else {}
    digest = members.get("digest")
    sha256 = digest.get("sha256") if isinstance(digest, dict) else None
    name = members.get("name")
    if not isinstance(name, str) or not isinstance(sha256, str):
        raise InputError("every subject must have a name and a digest with sha256")
    return ResourceDescriptor(name, sha256)
