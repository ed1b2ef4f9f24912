"""``memorisk gate``: a release goes on only if its statement passes and is about what is being released.

Needs Python's own library alone where a statement is given, and ``cryptography`` to verify its signature: neither
PyTorch nor an image library is installed where releases are made, and no patient's image is ever needed there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memorisk.audits.release.joining import joined
from memorisk.report.differences import differences
from memorisk.report.earlier_rules import audit_today, is_earlier
from memorisk.report.statements.envelope import LARGEST_ENVELOPE, open_envelope
from memorisk.report.statements.signatures import SignatureError
from memorisk.report.statements.statement import (
    FAIL,
    LISTED,
    LISTS,
    PASS,
    UNDECIDED,
    AuditStatement,
    NotWholeError,
    Released,
    Statement,
    read_statement,
)
from memorisk.runs.checksums import file_sha256, list_folder, listing_sha256
from memorisk.runs.errors import InputError, one_line, several, unknown_name

REQUIRE = ("pass", "not-fail")
STATEMENT = "privacy-statement.json"
_SHOWN = 12  # digits of a checksum that a line shows
_TO_DO = {
    FAIL: "do not release it; the statement says why, and the run's report what would help",
    UNDECIDED: "not a pass; the statement says what would decide it",
}


@dataclass(frozen=True)
class Gated:
    """Whether a release may go on."""

    passed: bool
    line: str
    """Why, or why not and what to do."""
    status: str = ""
    """Of the statement; empty where it is not whole."""
    files: tuple[tuple[str, str], ...] = ()
    """What is to be released and is what was audited: path and SHA-256."""
    notes: tuple[str, ...] = ()
    """What must be known besides."""


def gate(
    source: str | Path,
    *,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    require: str = "pass",
    key: Sequence[str | Path] = (),
    require_signature: bool = False,
) -> Gated:
    """Ask whether files may be released under a statement.

    Args:
        source: ``privacy-statement.json``, a folder that holds it, or the folder of a finished run.
        weights: Files of weights that are to be released.
        images: Folders or files of images that are to be released.
        require: ``pass``, or ``not-fail``, which lets through what could not be decided.
        key: Public keys that are trusted: one of them must have signed the statement.
        require_signature: Refuse a statement whose signature is not verified, also where no key is given.

    Returns:
        The answer; a statement that is broken or changed, or that nobody trusted signed, does not pass.

    Raises:
        InputError: Nothing is named for release, or something named is not there, or the source is no statement.

    Example:
        >>> gate("release/privacy-statement.json", weights=["model.safetensors"]).passed  # doctest: +SKIP
        True
    """
    if require not in REQUIRE:
        raise unknown_name("requirement", require, REQUIRE)
    if not weights and not images:
        raise InputError("nothing is named for release: name it with --weights FILE or --images FOLDER")
    given = [_offered("weights", Path(path)) for path in weights] + [_offered("images", Path(path)) for path in images]
    try:
        statement, signed = _statement(Path(source), [Path(one) for one in key])
    except (NotWholeError, SignatureError) as error:
        return Gated(False, str(error))
    if problem := next(_problems(statement, given, require, signed, require_signature), None):
        return Gated(False, problem, statement.verdict.status)
    return Gated(
        True,
        f"{_passed(statement, given)}; {signed.words}",
        statement.verdict.status,
        tuple((str(one.path), one.sha256) for one in given),
        tuple(_notes(statement, given)),
    )


@dataclass(frozen=True)
class _Offered:
    """What is to be released, as it is now."""

    what: str
    path: Path
    listing: Mapping[str, str]
    """SHA-256 of each file by name; of a file by the empty name."""

    @property
    def sha256(self) -> str:
        """Of the file, or of the folder's listing."""
        return self.listing[""] if set(self.listing) == {""} else listing_sha256(self.listing)


@dataclass(frozen=True)
class _Signed:
    """Who says what a statement says."""

    verified: bool
    words: str


def _offered(what: str, path: Path) -> _Offered:
    """Read what is to be released.

    Raises:
        InputError: It is not there, cannot be read, or is empty.
    """
    try:
        if path.is_file():
            return _Offered(what, path, {"": file_sha256(path)})
        if not path.is_dir():
            raise InputError(f"there is no file or folder {one_line(path)}")
        if not (listing := list_folder(path)):
            raise InputError(f"{one_line(path)} holds no file")
    except OSError as error:
        where = one_line(error.filename or path, 120)
        raise InputError(f"{where} cannot be read: {one_line(error.strerror or error, 80)}") from None
    return _Offered(what, path, listing)


def _statement(source: Path, keys: Sequence[Path]) -> tuple[Statement, _Signed]:
    """The statement that is named, or that of a run; and who signed it.

    Raises:
        InputError: There is none.
        SignatureError: None of the keys signed it.
    """
    if not source.exists():
        raise InputError(f"there is no {one_line(source)}: name a privacy-statement.json, or a finished run")
    file = source / STATEMENT if source.is_dir() else source
    if file.is_file():
        return _signed_statement(file, keys)
    from memorisk.audits.release.stating import state  # the run's own libraries are needed

    if keys:
        raise SignatureError(f"{one_line(source)} is a run, which nobody signs: sign a statement of it")
    return Statement.from_in_toto(state(source).as_in_toto(), one_line(source)), _Signed(False, "unsigned: of a run")


def _signed_statement(file: Path, keys: Sequence[Path]) -> tuple[Statement, _Signed]:
    """Verify the signature of a statement's file, and only then parse what it says.

    Raises:
        InputError: It is no statement.
        SignatureError: None of the keys signed it.
    """
    name = one_line(file)
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_ENVELOPE + 1)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {one_line(error.strerror or error, 80)}") from None
    envelope = open_envelope(data, name)
    if keys:
        from memorisk.report.statements.signatures import read_public_key, verify

        trusted = [read_public_key(one) for one in keys]
        if envelope is None:
            raise SignatureError(f"{name} is not signed: ask its author for a signed one")
        signers = verify(envelope, trusted)
        words = f"signed by key {', '.join(f'{one[:_SHOWN]}...' for one in signers)}"
        return read_statement(envelope.payload, name), _Signed(True, words)
    if envelope is None:
        return read_statement(data, name), _Signed(False, "unsigned: as its author claims")
    words = "signed, but not verified: as its author claims (verify it with --key)"
    return read_statement(envelope.payload, name), _Signed(False, words)


def _problems(
    statement: Statement, given: Sequence[_Offered], require: str, signed: _Signed, require_signature: bool
) -> Iterator[str]:
    """Why a release may not go on, the gravest first."""
    if require_signature and not signed.verified:
        yield f"the statement is {signed.words}, and a verified signature is required: name the public key with --key"
    verdict, of_runs = statement.verdict, joined(statement.audits).status
    if verdict.status != of_runs:
        yield f"the statement says {verdict.status}, and its runs together {of_runs}: write it again"
    audits = [audit_today(audit) for audit in statement.audits]
    today = joined(audits)
    if today.status != FAIL:
        yield from _earlier(audits)
    if today.status != PASS and not (require == "not-fail" and today.status == UNDECIDED):
        why = one_line(today.why[0], 200) if today.why else "without a reason"
        yield f"the verdict is {today.status} ({why}): {_TO_DO[today.status]}"
    yield from _at_other_settings(statement)
    for one in given:
        if _of(statement, one) is None:
            yield _not_audited(statement, one)


def _earlier(audits: Sequence[AuditStatement]) -> Iterator[str]:
    """Runs whose verdict an earlier rule gave; they stop a release whatever it requires."""
    for number, audit in enumerate(audits, 1):
        if is_earlier(audit.why):
            yield f"run {number} ({audit.kind}): {audit.why[0]}; what would decide it: {audit.what_would_decide[0]}"


def _at_other_settings(statement: Statement) -> Iterator[str]:
    """Passes by a list at another level or correction than the verdict's."""
    for number, audit in enumerate(statement.audits, 1):
        lists = {"level": audit.level, "correction": audit.settings.get("correction", LISTS["correction"])}
        if audit.status == PASS and audit.kind in LISTED and lists != LISTS:
            yield f"run {number} ({audit.kind}) was decided at other settings than {LISTS}: audit it again without them"


def _of(statement: Statement, offered: _Offered) -> Released | None:
    """What was audited with this content: the checksum of a folder is that of a text, which a file could hold."""
    return next(
        (
            one
            for one in statement.released
            if (one.what, one.sha256) == (offered.what, offered.sha256) and one.listing == offered.listing
        ),
        None,
    )


def _not_audited(statement: Statement, offered: _Offered) -> str:
    """Say that something else was audited, and name the files that differ."""
    known = [one for one in statement.released if one.what == offered.what]
    said = f"{one_line(offered.path, 120)} is not what was audited"
    if not known:
        untied = next((audit.subject.why for audit in statement.audits if audit.subject.why), "")
        because = f" ({one_line(untied, 200)})" if untied else ""
        return f"{said}: the statement is tied to no {offered.what}{because}"
    nearest = max(known, key=lambda one: len(one.listing.items() & offered.listing.items()))
    told = differences(nearest.listing, offered.listing) if nearest.form == "folder" else None
    if told is None or not nearest.listing.items() & offered.listing.items():
        told = (
            f"audited was sha256 {nearest.sha256[:_SHOWN]}..., {several(nearest.files, 'file', 'files')}, and this is "
            f"{offered.sha256[:_SHOWN]}..., {several(len(offered.listing), 'file', 'files')}"
        )
    return f"{said}: {told}. Release what was audited, or audit this and state it again"


def _passed(statement: Statement, given: Sequence[_Offered]) -> str:
    """What passed, under which runs."""
    said = []
    for offered in given:
        one = _of(statement, offered)
        kinds = ", ".join(dict.fromkeys(statement.audits[n].kind for n in one.audits)) if one else ""
        said.append(f"{one_line(offered.path, 120)} is what was audited ({kinds})")
    return f"{statement.verdict.status}: {'; '.join(said)}"


def _notes(statement: Statement, given: Sequence[_Offered]) -> Iterator[str]:
    """What a pass does not say."""
    if statement.verdict.status == UNDECIDED:
        yield "could not be decided, and was let through since that was asked for: this is no pass"
    ties = {number for offered in given if (one := _of(statement, offered)) for number in one.audits}
    for number, audit in enumerate(statement.audits):
        if number not in ties:
            yield f"run {number + 1} ({audit.kind}) is about something else than these files"
    yield from statement.verdict.contradictions
