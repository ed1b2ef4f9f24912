"""A privacy statement: what finished runs say of what is to be released, for machines; ``privacy-statement.json``.

The form is ``schemas/privacy-statement-1.json`` (docs/release.md). Nothing but Python's own library is needed to read
one, so that a gate on releases runs where neither PyTorch nor an image library is installed.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Self

from memorisk.report.json_schema import load_schema, violations
from memorisk.runs.errors import InputError, one_line

FORMAT, VERSION, SCHEMA = "memorisk privacy statement", 1, "privacy-statement-1"
PASS, FAIL, UNDECIDED, NOT_ASKED = "pass", "fail", "undecided", "not asked"
_LARGEST = 1 << 26  # bytes: a statement is a few pages


class NotWholeError(InputError):
    """A statement that is not as its schema says, or was changed since it was written."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number with its interval. Numbers are None where there are none, never NaN."""

    name: str
    """For machines: lower case, as in ``auc/loss_threshold``."""
    title: str
    """For readers."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """With ``low`` None a one-sided upper limit."""
    confidence: float | None = None
    """Of the interval."""
    p_value: float | None = None
    n: int | None = None
    """Independent units it rests on."""
    unit: str = ""
    """What these are."""

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "confidence", "p_value"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None or not math.isfinite(given) else float(given))


@dataclass(frozen=True, kw_only=True)
class Part:
    """A set of images that took part in a run."""

    part: str
    fingerprint: str
    """Over ids, labels, groups, splits and pixels as memorisk stored them."""
    images: int | None = None
    units: int | None = None
    """Patients, or images where nobody said whose each is."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a run looked at."""

    what: str
    """``weights``, ``images``, ``recipe``, ``training`` or ``outputs``."""
    sha256: tuple[str, ...] = ()
    """Of each file or folder; none where the run cannot be tied to one."""
    why: str = ""
    """Why it cannot."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """How it was done, and where that is from."""

    name: str
    source: str
    page: str


@dataclass(frozen=True, kw_only=True)
class AuditStatement:
    """What one run says."""

    kind: str
    question: str
    status: str
    """``pass``, ``fail``, ``undecided``, or ``not asked``: it says nothing of privacy."""
    gate: str
    why: tuple[str, ...]
    what_would_decide: tuple[str, ...]
    subject: Subject
    data: tuple[Part, ...]
    units: str
    n_units: int | None
    n_models: int | None
    level: float | None
    correction: str
    figures: tuple[Figure, ...]
    not_examined: tuple[str, ...]
    assumptions: tuple[str, ...]
    limits: tuple[str, ...]
    method: Method
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    run_sha256: str


@dataclass(frozen=True, kw_only=True)
class Released:
    """A file or folder that was audited, and may be released under the statement if that passes."""

    what: str
    """``weights`` or ``images``."""
    form: str
    """``file`` or ``folder``."""
    sha256: str
    files: int
    bytes: int | None
    """None where the file was not at hand when the statement was written."""
    audits: tuple[int, ...]
    """Places of the runs that looked at it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All runs together, by the worst of them."""

    status: str
    why: tuple[str, ...]
    what_would_decide: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    """Where runs do not fit together."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What finished runs say of what is to be released."""

    memorisk: str
    """Version that wrote it."""
    verdict: Verdict
    released: tuple[Released, ...]
    audits: tuple[AuditStatement, ...]
    format: str = field(default=FORMAT)
    format_version: int = field(default=VERSION)

    def as_json(self) -> dict[str, Any]:
        """The statement as JSON has it, with the checksum of its own content.

        Raises:
            ValueError: It is not as its schema says: a defect of memorisk.
        """
        fields = ("format", "format_version", "memorisk", "verdict", "released", "audits")
        told = json.loads(json.dumps({name: _plain(getattr(self, name)) for name in fields}, allow_nan=False))
        whole = {**told, "content_sha256": content_sha256(told)}
        if odd := next(violations(whole, load_schema(SCHEMA)), None):
            raise ValueError(f"the statement is not as its schema says: {odd}")
        return whole

    @classmethod
    def from_json(cls, found: Any, name: str) -> Self:
        """A statement from what JSON holds.

        Args:
            found: The parsed file.
            name: What it is called, for messages.

        Raises:
            NotWholeError: It is not as the schema says, or was changed since.
            InputError: It is none, or of another version of the format.
        """
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise InputError(f"{name} is no privacy statement of memorisk: make one with memorisk statement RUN")
        if found.get("format_version") != VERSION:
            version = one_line(found.get("format_version"), 20)
            raise InputError(
                f"{name} has format version {version}, known here is {VERSION}: use the memorisk that wrote it"
            )
        if odd := next(violations(found, load_schema(SCHEMA)), None):
            raise NotWholeError(f"{name} is not whole: {one_line(odd, 160)}; write it again with memorisk statement")
        told = {key: value for key, value in found.items() if key != "content_sha256"}
        if content_sha256(told) != found["content_sha256"]:
            raise NotWholeError(f"{name} was changed since it was written: write it again with memorisk statement")
        return cls(
            memorisk=found["memorisk"],
            verdict=Verdict(**_tuples(found["verdict"])),
            released=tuple(Released(**_tuples(one)) for one in found["released"]),
            audits=tuple(_audit(one) for one in found["audits"]),
        )


def read_statement(path: str | Path) -> Statement:
    """Read and check ``privacy-statement.json``.

    Args:
        path: The file.

    Raises:
        InputError: As `Statement.from_json`, or it cannot be read.
    """
    file, name = Path(path), one_line(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise InputError(f"{name} is far too large for a statement")
        found = json.loads(file.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {one_line(error.strerror or error, 80)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no JSON: {one_line(error, 80)}") from None
    return Statement.from_json(found, name)


def content_sha256(told: Mapping[str, Any]) -> str:
    """SHA-256 of a statement without its own checksum: JSON with sorted keys and no spaces, in UTF-8."""
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def _audit(found: dict[str, Any]) -> AuditStatement:
    """One run's part."""
    return AuditStatement(
        **_tuples({k: v for k, v in found.items() if k not in ("subject", "data", "figures", "method")}),
        subject=Subject(**_tuples(found["subject"])),
        data=tuple(Part(**one) for one in found["data"]),
        figures=tuple(Figure(**one) for one in found["figures"]),
        method=Method(**found["method"]),
    )


def _tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same with tuples for lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _plain(value: Any) -> Any:
    """Dataclasses as objects."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _refuse_constant(name: str) -> Any:
    """JSON knows no NaN."""
    raise ValueError(f"{name} is no number of JSON")
