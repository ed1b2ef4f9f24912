"""A privacy statement: the results of finished runs on a release, for machines; ``privacy-statement.json``.

It is the predicate of an in-toto Statement, whose subjects are the released files and the results of the runs
(`memorisk.report.statements.envelope`); its form is ``schemas/privacy-statement-4.json`` (docs/release.md). Reading
one needs only Python's own library, so that a gate on releases runs where neither PyTorch nor an image library is
installed. `describe_differences` describes how the files of a release differ from those that were audited.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Self

from memorisk.images.pixel_form import PixelForm
from memorisk.report.kinds import kind_of
from memorisk.report.statements.envelope import InTotoStatement, ResourceDescriptor
from memorisk.report.statements.json_documents import load_schema, violations
from memorisk.runs.checksums import listing_sha256
from memorisk.runs.errors import InputError, one_line
from memorisk.statistics.verdicts.levels import VERDICT_CORRECTION, VERDICT_LEVEL
from memorisk.statistics.verdicts.reasons import Reason

FORMAT, VERSION, SCHEMA = "memorisk privacy statement", 4, "privacy-statement-4"
LISTS = {"level": VERDICT_LEVEL, "correction": VERDICT_CORRECTION}
"""Level and correction of the list behind a verdict; verdicts of the first form were given at the requested ones."""
PASS, FAIL, UNDECIDED, NOT_ASKED = "pass", "fail", "undecided", "not asked"
HEADLINES = {
    PASS: "Nothing was found of what was looked for",
    FAIL: "Not ready for release",
    UNDECIDED: "Could not be decided",
}
"""Headline of a statement, by status, in the terminal, in the card and on the officer's page. The runs looked for
different things, and a statement claims no more than its runs do."""
WAYS = {UNDECIDED: "What would decide it", FAIL: "What would settle open questions"}
"""Heading of the remedies, by status, wherever a verdict is shown."""
OFFICER_TITLE = "For the data-protection officer"
"""Title of the page for the officer, by which it is recognised before it is replaced."""
HELD_OUT_PIXELS = "same_pixels_held_out"
"""Name of the figure that counts generated images with the very pixels of a held-out image."""
DRAWN_PIXELS = "drawn_training_images"
"""Name of the figure of a watch: drawn images with the pixels of a training image, at the look with the most."""
OTHER_PIXELS = "same_pixels_further_parts"
"""Name of the figure that counts generated images with the very pixels of an image in a further part of TRAIN."""
SHARED_PIXELS = "same_pixels_both_parts"
"""Name of the figure that counts generated images with pixels that a training and a held-out image share."""


def run_headline(status: str, audit: object = "") -> str:
    """Return the headline of a single run.

    Args:
        status: Status of its verdict.
        audit: Value of ``audit`` in its verdict; a classifier's has none.
    """
    return kind_of(audit).passed if status == PASS else HEADLINES.get(status, status)


FOUND = "found/"
"""Prefix of the names of the figures for the noticed planted copies of a required kind."""
ALSO = "also/"
"""Prefix of the names of these figures for kinds that were tried and not required: no gate counts them as tried."""
RUNS = "runs"
"""Prefix of the subjects that are results of the runs; subjects below the name of a `Released` are its files."""


class InvalidStatementError(InputError):
    """Statement that violates its schema, or was changed since it was written."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Number with its interval; a missing number is None, never NaN."""

    name: str
    """Name for machines: lower case, as in ``auc/loss_threshold``."""
    title: str
    """Title of the figure, for readers."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """Upper limit; with ``low`` None it is one-sided."""
    confidence: float | None = None
    """Level of the interval."""
    p_value: float | None = None
    n: int | None = None
    """Number of independent units behind the figure."""
    unit: str = ""
    """Name of these units."""

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "confidence", "p_value"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None or not math.isfinite(value) else float(value))


@dataclass(frozen=True, kw_only=True)
class Part:
    """Set of images that took part in a run."""

    part: str
    fingerprint: str
    """Fingerprint of ids, labels, groups, splits and pixels as memorisk stored them."""
    images: int | None = None
    units: int | None = None
    """Number of patients, or of images where the patient of each is unknown."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Subject of a run."""

    what: str
    """Kind of the subject: ``weights``, ``images``, ``recipe``, ``training`` or ``outputs``."""
    sha256: tuple[str, ...] = ()
    """SHA-256 of each file or folder; none where the run cannot be tied to one."""
    why: str = ""
    """Reason why the run cannot be tied to a file or folder."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """Method of a run, with its source."""

    name: str
    source: str
    page: str


@dataclass(frozen=True, kw_only=True)
class StatedReason:
    """Reason of a run's status."""

    code: str
    bears_on: str
    """Effect on the status: ``fail``, ``doubt``, ``limit`` or ``support``."""
    text: str
    """Sentence for engineers."""
    plain: str
    """Sentence for everybody else."""

    @classmethod
    def of(cls, reason: Reason | Mapping[str, Any]) -> Self:
        """State a reason, or the record of one in a verdict."""
        record = reason.as_record() if isinstance(reason, Reason) else reason
        return cls(**{name: str(record[name]) for name in ("code", "bears_on", "text", "plain")})


@dataclass(frozen=True, kw_only=True)
class AuditStatement:
    """Statement of one run."""

    kind: str
    question: str
    status: str
    """Status of the run: ``pass``, ``fail``, ``undecided``, or ``not asked`` where it does not concern privacy."""
    gate: str
    reasons: tuple[StatedReason, ...]
    what_would_decide: tuple[str, ...]
    subject: Subject
    data: tuple[Part, ...]
    units: str
    n_units: int | None
    n_models: int | None
    level: float | None
    correction: str
    figures: tuple[Figure, ...]
    kinds_not_tried: tuple[str, ...] = ()
    """Kinds of copies of which none was planted."""
    not_examined: tuple[str, ...]
    assumptions: tuple[str, ...]
    limits: tuple[str, ...]
    method: Method
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    run_sha256: str

    @property
    def why(self) -> tuple[str, ...]:
        """Sentences of the reasons, for engineers."""
        return tuple(reason.text for reason in self.reasons)


@dataclass(frozen=True, kw_only=True)
class Released:
    """File or folder that was audited, and may be released under the statement if that passes."""

    what: str
    """Kind of the content: ``weights`` or ``images``."""
    form: str
    """Form of the release: ``file`` or ``folder``."""
    listing: Mapping[str, str]
    """SHA-256 of each file by its name in the folder; a single file has the empty name."""
    sha256: str
    """SHA-256 of the file, or of the folder's listing as ``sha256sum`` prints it."""
    files: int
    bytes: int | None
    """Number of bytes; None where the file was not at hand when the statement was written."""
    pixels: PixelForm | None
    """Form of the pixels that were compared; None for weights."""
    audits: tuple[int, ...]
    """Indices of the runs that looked at it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on all runs together, by the worst of them."""

    status: str
    why: tuple[str, ...]
    what_would_decide: tuple[str, ...] = ()
    contradictions: tuple[StatedReason, ...] = ()
    """Contradictions between runs."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Statement of finished runs about a release."""

    memorisk: str
    """Version of memorisk that wrote the statement."""
    verdict: Verdict
    released: tuple[Released, ...]
    audits: tuple[AuditStatement, ...]
    format: str = field(default=FORMAT)
    format_version: int = field(default=VERSION)

    def as_in_toto(self) -> InTotoStatement:
        """Return the in-toto Statement that carries the statement, with the checksum of its own content.

        Raises:
            ValueError: The statement violates its schema: a defect of memorisk.
        """
        parts = _parts_by_name(self.released)
        subject = [
            ResourceDescriptor(f"{name}/{file}" if file else name, sha256)
            for name, one in parts.items()
            for file, sha256 in one.listing.items()
        ]
        subject += [ResourceDescriptor(f"{RUNS}/{n}", audit.run_sha256) for n, audit in enumerate(self.audits, 1)]
        content = {
            name: _plain(getattr(self, name)) for name in ("format", "format_version", "memorisk", "verdict", "audits")
        }
        content["released"] = [
            {"name": name, **{k: v for k, v in _plain(one).items() if k != "listing"}} for name, one in parts.items()
        ]
        predicate = json.loads(json.dumps(content, allow_nan=False))
        whole = {**predicate, "content_sha256": content_sha256(predicate, subject)}
        if odd := next(violations(whole, load_schema(SCHEMA)), None):
            raise ValueError(f"the statement is not as its schema says: {odd}")
        return InTotoStatement(subject=tuple(subject), predicate=whole)

    def as_json(self) -> dict[str, Any]:
        """Return the in-toto Statement as JSON has it."""
        return self.as_in_toto().as_json()

    @classmethod
    def from_in_toto(cls, statement: InTotoStatement, name: str) -> Self:
        """Read the statement that an in-toto Statement carries.

        Args:
            statement: Statement in in-toto's form to read.
            name: Name of the statement, for messages.

        Raises:
            InvalidStatementError: The statement violates the schema, or was changed since it was written.
            InputError: It is not a privacy statement, or of another version of the format.
        """
        predicate = statement.predicate
        if predicate.get("format") != FORMAT:
            raise InputError(f"{name} is no privacy statement of memorisk: make one with memorisk statement RUN")
        if predicate.get("format_version") != VERSION:
            version = one_line(predicate.get("format_version"), 20)
            raise InputError(
                f"{name} has format version {version}, known here is {VERSION}: write it again with memorisk statement"
            )
        if odd := next(violations(predicate, load_schema(SCHEMA)), None):
            raise InvalidStatementError(
                f"{name} is not whole: {one_line(odd, 160)}; write it again with memorisk statement"
            )
        content = {key: value for key, value in predicate.items() if key != "content_sha256"}
        if content_sha256(content, statement.subject) != predicate["content_sha256"]:
            raise InvalidStatementError(
                f"{name} was changed since it was written: write it again with memorisk statement"
            )
        places = {place for one in predicate["released"] for place in one["audits"]}
        if not places <= set(range(len(predicate["audits"]))):
            raise InvalidStatementError(
                f"{name} is not whole: what is released names audits that are not in it; write it again with "
                "memorisk statement"
            )
        return cls(
            memorisk=predicate["memorisk"],
            verdict=_verdict(predicate["verdict"]),
            released=tuple(_released(one, statement.subject, name) for one in predicate["released"]),
            audits=tuple(_audit(one) for one in predicate["audits"]),
        )


def read_statement(data: bytes, name: str) -> Statement:
    """Parse the payload of an envelope, or the file of an unsigned statement; verify signatures first.

    Args:
        data: Bytes of the in-toto Statement.
        name: Name of the statement, for messages.

    Raises:
        InputError: The same errors as `Statement.from_in_toto`, or the data are not an in-toto Statement.
    """
    return Statement.from_in_toto(InTotoStatement.from_bytes(data, name), name)


def _parts_by_name(released: Sequence[Released]) -> dict[str, Released]:
    """Name each part of a release: ``images``, ``weights``, and from the second of a kind on ``images-2``."""
    names: dict[str, Released] = {}
    for one in released:
        number = sum(other.what == one.what for other in names.values()) + 1
        names[one.what if number == 1 else f"{one.what}-{number}"] = one
    return names


def _released(record: Mapping[str, Any], subject: Sequence[ResourceDescriptor], name: str) -> Released:
    """Return one part of a release with the subjects that are its files.

    Raises:
        InvalidStatementError: The files do not match the checksum of the part.
    """
    own = record["name"]
    listing = {
        one.name[len(own) :].removeprefix("/"): one.sha256
        for one in subject
        if one.name == own or one.name.startswith(f"{own}/")
    }
    sha256 = listing.get("") if record["form"] == "file" else listing_sha256(listing)
    if sha256 != record["sha256"] or len(listing) != record["files"]:
        raise InvalidStatementError(
            f"{name} is not whole: its files are not those of {one_line(own, 40)}; write it again"
        )
    pixels = None if record["pixels"] is None else PixelForm(**record["pixels"])
    rest = {k: v for k, v in record.items() if k not in ("name", "pixels")}
    audits = [int(number) for number in record["audits"]]  # 0.0 is an integer in JSON
    return Released(**_tuples(rest | {"audits": audits}), listing=listing, pixels=pixels)


def content_sha256(predicate: Mapping[str, Any], subject: Sequence[ResourceDescriptor]) -> str:
    """Compute the SHA-256 of a statement and its subjects: JSON with sorted keys and no spaces, in UTF-8."""
    whole = {"predicate": predicate, "subject": sorted((one.name, one.sha256) for one in subject)}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def _verdict(record: dict[str, Any]) -> Verdict:
    """Read the verdict on all runs together."""
    contradictions = tuple(StatedReason.of(one) for one in record["contradictions"])
    return Verdict(**{**_tuples(record), "contradictions": contradictions})


def _audit(record: dict[str, Any]) -> AuditStatement:
    """Read the part of one run."""
    return AuditStatement(
        **_tuples({k: v for k, v in record.items() if k not in ("reasons", "subject", "data", "figures", "method")}),
        reasons=tuple(StatedReason.of(one) for one in record["reasons"]),
        subject=Subject(**_tuples(record["subject"])),
        data=tuple(Part(**one) for one in record["data"]),
        figures=tuple(Figure(**one) for one in record["figures"]),
        method=Method(**record["method"]),
    )


def _tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists into tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}


def _plain(value: Any) -> Any:
    """Turn dataclasses into objects of JSON."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


_SHOWN = 3


def describe_differences(audited: Mapping[str, str], current: Mapping[str, str]) -> str | None:
    """Name the files that were added, removed or changed.

    Args:
        audited: SHA-256 of each file by its name, as it was audited.
        current: SHA-256 of each file by its name, as it is now.

    Returns:
        Phrase on the differences; None where there are none.
    """
    by_change = {
        "not among the files that were audited": sorted(current.keys() - audited.keys()),
        "missing": sorted(audited.keys() - current.keys()),
        "changed": sorted(name for name in current.keys() & audited.keys() if current[name] != audited[name]),
    }
    sentences = [
        f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in by_change.items() if names
    ]
    return "; ".join(sentences) or None


def _listed(names: list[str]) -> str:
    head = ", ".join(one_line(name, 80) for name in names[:_SHOWN])
    return head if len(names) <= _SHOWN else f"{head} and {len(names) - _SHOWN:,} more"
