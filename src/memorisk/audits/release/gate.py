"""``memorisk gate``: a release is allowed only if its statement passes and is about what is being released.

Needs Python's own library alone where a statement is given, and ``cryptography`` to verify its signature: neither
PyTorch nor an image library is installed where releases are made, and no patient's image is ever needed there.

Several runs give one verdict: the worst of them, and where they do not fit together. A failure anywhere is a failure. A
doubt anywhere, or a contradiction, is a doubt. A pass needs a run that examines privacy and passes, and no other status
from any: "not tested", "could not be told" and "not asked" never make one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS, find_plant_kind
from memorisk.images.pixel_form import PixelForm
from memorisk.report.kinds import kind_of
from memorisk.report.statements.envelope import LARGEST_ENVELOPE, open_envelope
from memorisk.report.statements.signatures import SignatureError
from memorisk.report.statements.statement import (
    FAIL,
    FOUND,
    HELD_OUT_PIXELS,
    LISTS,
    NOT_ASKED,
    OTHER_PIXELS,
    PASS,
    SHARED_PIXELS,
    UNDECIDED,
    AuditStatement,
    InvalidStatementError,
    Part,
    Released,
    StatedReason,
    Statement,
    Verdict,
    describe_differences,
    read_statement,
)
from memorisk.report.verdict_forms import refuse_other_form
from memorisk.runs.checksums import file_sha256, list_folder, listing_sha256
from memorisk.runs.errors import InputError, one_line, plural, unknown_name
from memorisk.statistics.verdicts.reasons import Reason, Words

_NOBODY_ASKS = "no run asks about privacy"


def worst_verdict(audits: Sequence[AuditStatement]) -> Verdict:
    """Return the verdict of all runs together.

    Args:
        audits: Statement of each run.
    """
    reasons, deciding = [], []
    statuses = {audit.status for audit in audits}
    answers = statuses - {NOT_ASKED}
    against = contradictions(audits)
    status = (
        FAIL if FAIL in answers else PASS if answers == {PASS} and not _has_doubtful_training(audits) else UNDECIDED
    )
    for audit in audits:
        if audit.status == status or (status == UNDECIDED and audit.status not in (PASS, NOT_ASKED)):
            reasons += [f"{audit.kind}: {reason}" for reason in audit.why]
            deciding += [f"{audit.kind}: {way}" for way in audit.what_would_decide]
    if not answers:
        reasons, deciding = [_NOBODY_ASKS], ["an audit of what is to be released"]
    elif status == UNDECIDED and answers == {PASS}:
        reasons, deciding = [one.text for one in against], ["runs on the same training data"]
    return Verdict(
        status=status,
        why=tuple(dict.fromkeys(reasons)),
        what_would_decide=tuple(dict.fromkeys(deciding)),
        contradictions=tuple(against),
    )


class Contradiction(Reason):
    """Two runs that do not fit together."""

    n_first: int
    n_second: int
    """Numbers of the runs, from 1."""
    first: str
    second: str
    """Kinds of the runs."""

    @property
    def runs(self) -> str:
        """Both runs in words."""
        return f"runs {self.n_first} ({self.first}) and {self.n_second} ({self.second})"


class PassAndFailure(Contradiction, code="runs-pass-and-fail"):
    """Runs of which one passes and one fails."""

    same_files: bool
    plain = Words("one audit found nothing and another one found signs; what was found counts")

    @Words
    def text(self) -> str:
        what = "of the same files" if self.same_files else "of different things"
        return f"{self.runs}, {what}: one passes and one fails; the failure counts"


class PassAndDoubt(Contradiction, code="runs-pass-and-doubt"):
    """Runs of the same files of which one passes and one could not decide."""

    text = Words("{runs} are of the same files: one passes and one could not decide; the doubt counts")
    plain = Words("of the same files one audit found nothing and another one could not decide; the doubt counts")


class OtherTrainingData(Contradiction, code="runs-of-other-data"):
    """Runs that compare with training data of different sizes."""

    text = Words("{runs} are of different training data: their numbers of training images or patients differ")
    plain = Words("the audits looked at different training data")


class OtherFingerprint(Contradiction, code="runs-of-other-fingerprint"):
    """Runs with as much training data, with another fingerprint."""

    text = Words(
        "{runs} have as much training data, with another fingerprint: read otherwise, as at another size, or other "
        "images"
    )
    plain = Words("the audits may have looked at different training data")


def contradictions(audits: Sequence[AuditStatement]) -> list[StatedReason]:
    """List where runs do not fit together.

    Args:
        audits: Statement of each run.
    """
    reasons: list[Reason] = []
    for (i, one), (j, other) in combinations(enumerate(audits, 1), 2):
        both, same = {one.status, other.status}, bool(set(one.subject.sha256) & set(other.subject.sha256))
        pair = {"n_first": i, "n_second": j, "first": one.kind, "second": other.kind}
        if both == {PASS, FAIL}:
            reasons.append(PassAndFailure(**pair, same_files=same))
        elif both == {PASS, UNDECIDED} and same:
            reasons.append(PassAndDoubt(**pair))
        if _has_other_size(one, other):
            reasons.append(OtherTrainingData(**pair))
        elif _has_other_fingerprint(one, other):
            reasons.append(OtherFingerprint(**pair))
    return [StatedReason.of(reason) for reason in reasons]


def _training(audit: AuditStatement) -> Part | None:
    """Return what the audited thing was trained on, where the run says so."""
    return next((part for part in audit.data if part.part == "training"), None)


def _has_other_size(one: AuditStatement, other: AuditStatement) -> bool:
    """Return whether two runs compare with training data of different sizes."""
    ours, theirs = _training(one), _training(other)
    if ours is None or theirs is None or ours.fingerprint == theirs.fingerprint:
        return False
    pairs = ((ours.images, theirs.images), (ours.units, theirs.units))
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _has_other_fingerprint(one: AuditStatement, other: AuditStatement) -> bool:
    """Return whether two runs have training data of one size and different fingerprints."""
    ours, theirs = _training(one), _training(other)
    return ours is not None and theirs is not None and ours.fingerprint != theirs.fingerprint


def _has_doubtful_training(audits: Sequence[AuditStatement]) -> bool:
    """Return whether passing runs compare with different training data: which is that of the release is unknown."""
    asking = [audit for audit in audits if audit.status != NOT_ASKED]
    return any(_has_other_size(one, other) for one, other in combinations(asking, 2))


def merge_files(files_of_runs: Sequence[Sequence[Released]]) -> tuple[Released, ...]:
    """List every file that runs are tied to, once, with the runs that looked at it.

    Args:
        files_of_runs: Files that each run is tied to.
    """
    by_content: dict[tuple[str, str], list[tuple[int, Released]]] = {}
    for number, files in enumerate(files_of_runs):
        for one in files:
            by_content.setdefault((one.what, one.sha256), []).append((number, one))
    return tuple(
        Released(
            what=what, form=rows[0][1].form, listing=rows[0][1].listing, sha256=sha256, files=rows[0][1].files,
            bytes=next((one.bytes for _, one in rows if one.bytes is not None), None), pixels=rows[0][1].pixels,
            audits=tuple(dict.fromkeys(number for number, _ in rows)),
        )
        for (what, sha256), rows in by_content.items()
    )  # fmt: skip


_NO_AUDIT = "only an audit of exactly these files clears them"
_PNG_HEAD = 64  # bytes of a file in which a PNG declares its size

REQUIRE = ("pass", "not-fail")
_REAL_PIXELS = {
    HELD_OUT_PIXELS: "a held-out image",
    OTHER_PIXELS: "an image in a further part of TRAIN",
    SHARED_PIXELS: "an image that is in training and held out",
}
"""Figures that count generated images with unchanged pixels of people who are not among those of a failure."""
STATEMENT = "privacy-statement.json"
_SHOWN = 12  # digits of a checksum that a line shows
_TO_DO = {
    FAIL: "do not release it; the statement says why, and the run's report what would help",
    UNDECIDED: "not a pass; the statement says what would decide it",
}


@dataclass(frozen=True)
class GateDecision:
    """Whether the release is allowed."""

    passed: bool
    line: str
    """Reason for the pass, or for the refusal and what to do."""
    status: str = ""
    """Status of the statement; empty where the statement is incomplete."""
    kinds: tuple[str, ...] = ()
    """Kinds of copies that every audit of a generated set under the statement looked for."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and SHA-256 of each file that is to be released and was audited."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader must also know."""


def gate(
    source: str | Path,
    *,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    require: str = "pass",
    kinds: Sequence[str] = tuple(PLANT_KINDS),
    key: Sequence[str | Path] = (),
    require_signature: bool = False,
) -> GateDecision:
    """Ask whether files may be released under a statement.

    Args:
        source: ``privacy-statement.json``, a folder that holds it, or the folder of a finished run.
        weights: Files of weights that are to be released.
        images: Folders or files of images that are to be released.
        require: ``pass``, or ``not-fail``, which lets through what could not be decided.
        kinds: Kinds of copies that a pass of a generated set must be about: those that are named here and that its
            audit did not plant stop the release.
        key: Public keys that are trusted: one of them must have signed the statement.
        require_signature: Refuse a statement whose signature is not verified, also where no key is given.

    Returns:
        Answer; a statement that is broken or changed, or that no trusted key signed, does not pass.

    Raises:
        InputError: Nothing is named for release, something named does not exist, the source is not a statement, or a
            rule of another form gave a verdict in it.

    Example:
        >>> gate("release/privacy-statement.json", weights=["model.safetensors"]).passed  # doctest: +SKIP
        True
    """
    if require not in REQUIRE:
        raise unknown_name("requirement", require, REQUIRE)
    if not kinds:
        raise InputError("kinds names no kind of copy: name one or more, or leave it out to ask for all")
    for kind in kinds:
        find_plant_kind(kind)
    if not Path(source).exists():
        raise InputError(
            f"there is no {one_line(source)}: name a privacy-statement.json, its folder, or a folder of a finished run"
        )
    if not weights and not images:
        raise InputError("nothing is named for release: name it with --weights FILE or --images FOLDER")
    offered = [_read_release("weights", Path(path)) for path in weights] + [
        _read_release("images", Path(path)) for path in images
    ]
    try:
        statement, signed = _statement(Path(source), [Path(one) for one in key], offered)
    except (InvalidStatementError, SignatureError) as error:
        return GateDecision(False, str(error))
    for audit in statement.audits:
        refuse_other_form(one_line(source), audit.kind, audit.settings.get("verdict_form"))
    audits_of_sets = [audit for audit in statement.audits if kind_of(audit.kind).of_generated_set]
    tried = tuple(
        kind for kind in ALL_KINDS if audits_of_sets and all(kind in _tried(audit) for audit in audits_of_sets)
    )
    if problem := next(_problems(statement, offered, require, kinds, signed, require_signature), None):
        return GateDecision(False, problem, statement.verdict.status, tried)
    return GateDecision(
        True,
        f"{_pass_sentence(statement, offered)}; {signed.words}",
        statement.verdict.status,
        tried,
        tuple((str(one.path), one.sha256) for one in offered),
        tuple(_notes(statement, offered)),
    )


@dataclass(frozen=True)
class _ReleaseFiles:
    """Files to be released, as they are now."""

    what: str
    path: Path
    listing: Mapping[str, str]
    """SHA-256 of each file by name; of a file by the empty name."""

    @property
    def sha256(self) -> str:
        """Return the checksum of the file, or of the folder's listing."""
        return self.listing[""] if set(self.listing) == {""} else listing_sha256(self.listing)


@dataclass(frozen=True)
class _Signer:
    """Signer of a statement."""

    verified: bool
    words: str


def _read_release(what: str, path: Path) -> _ReleaseFiles:
    """Read what is to be released.

    Raises:
        InputError: It is not there, is a link, cannot be read, or is empty.
    """
    try:
        if path.is_symlink():  # where it leads can change after the gate
            raise InputError(f"{one_line(path)} is a link: name the file or folder itself")
        if path.is_file():
            return _ReleaseFiles(what, path, {"": file_sha256(path)})
        if not path.is_dir():
            raise InputError(f"there is no file or folder {one_line(path)}")
        if not (listing := list_folder(path)):
            raise InputError(f"{one_line(path)} holds no file")
    except OSError as error:
        where = one_line(error.filename or path, 120)
        raise InputError(f"{where} cannot be read: {one_line(error.strerror or error, 80)}") from None
    return _ReleaseFiles(what, path, listing)


def _statement(source: Path, keys: Sequence[Path], offered: Sequence[_ReleaseFiles]) -> tuple[Statement, _Signer]:
    """Read the statement that is named, or make that of a run for what is to be released; and say who signed it.

    Raises:
        InputError: The source gives no statement.
        SignatureError: None of the keys signed it.
    """
    file = source / STATEMENT if source.is_dir() else source
    if file.is_file():
        return _signed_statement(file, keys)
    from memorisk.audits.release.binding import ReleaseFiles  # the run's own libraries are needed
    from memorisk.audits.release.statement import state_runs

    if keys:
        raise SignatureError(f"{one_line(source)} is a run, and only statements are signed: sign a statement of it")
    weights, images = (tuple(one.path for one in offered if one.what == what) for what in ("weights", "images"))
    statement, _ = state_runs(source, ReleaseFiles(weights, images))
    return Statement.from_in_toto(statement.as_in_toto(), one_line(source)), _Signer(False, "unsigned: of a run")


def _signed_statement(file: Path, keys: Sequence[Path]) -> tuple[Statement, _Signer]:
    """Verify the signature of a statement's file, and only then parse what it says.

    Raises:
        InputError: The text is not a statement.
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
        return read_statement(envelope.payload, name), _Signer(True, words)
    if envelope is None:
        return read_statement(data, name), _Signer(False, "unsigned: as its author claims")
    words = "signed, but not verified: as its author claims (verify it with --key)"
    return read_statement(envelope.payload, name), _Signer(False, words)


def _problems(
    statement: Statement,
    files: Sequence[_ReleaseFiles],
    require: str,
    kinds: Sequence[str],
    signed: _Signer,
    require_signature: bool,
) -> Iterator[str]:
    """List why a release is refused, the gravest reason first."""
    if require_signature and not signed.verified:
        yield f"the statement is {signed.words}, and a verified signature is required: name the public key with --key"
    verdict = worst_verdict(statement.audits)
    if verdict.status != statement.verdict.status:
        yield f"the statement says {statement.verdict.status}, and its runs together {verdict.status}: write it again"
    if verdict.status != PASS and not (require == "not-fail" and verdict.status == UNDECIDED):
        why = one_line(verdict.why[0], 200) if verdict.why else "without a reason"
        yield f"the verdict is {verdict.status} ({why}): {_TO_DO[verdict.status]}"
    yield from _pixels_of_people(statement.audits)
    yield from _other_settings(statement)
    for one in files:
        if (released := _find_released(statement, one)) is None:
            yield _mismatch(statement, one)
        elif not any(kind_of(statement.audits[number].kind).clears == one.what for number in released.audits):
            yield f"{one_line(one.path, 120)} was not audited: {_NO_AUDIT}"
    yield from _untried_kinds(statement, kinds)


def _pixels_of_people(audits: Sequence[AuditStatement]) -> Iterator[str]:
    """List the runs about sets with unchanged images of real people; they stop a release whatever it requires."""
    for number, audit in enumerate(audits, 1):
        for figure in audit.figures:
            if (part := _REAL_PIXELS.get(figure.name)) and (hits := int(figure.value or 0)):
                have = "generated image has" if hits == 1 else "generated images have"
                yield (
                    f"run {number} ({audit.kind}): {hits:,} {have} the very pixels of {part}, a real person's: "
                    "take them out of the set (the run's tables/pairs.parquet names them), and audit it again"
                )


def _other_settings(statement: Statement) -> Iterator[str]:
    """List the passes by a list at another level or correction than the verdict's."""
    for number, audit in enumerate(statement.audits, 1):
        lists = {"level": audit.level, "correction": audit.settings.get("correction", LISTS["correction"])}
        if audit.status == PASS and kind_of(audit.kind).lists_people and lists != LISTS:
            yield f"run {number} ({audit.kind}) was decided at other settings than {LISTS}: audit it again without them"


def _tried(audit: AuditStatement) -> set[str]:
    """Name the kinds of copies that an audit planted."""
    return {figure.name.removeprefix(FOUND) for figure in audit.figures if figure.name.startswith(FOUND) and figure.n}


def _untried_kinds(statement: Statement, kinds: Sequence[str]) -> Iterator[str]:
    """List the passes of generated sets that are not about every kind of copy that the release asks for."""
    for number, audit in enumerate(statement.audits, 1):
        if not kind_of(audit.kind).of_generated_set or audit.status != PASS:
            continue
        if untried := [kind for kind in kinds if kind not in _tried(audit)]:
            yield (
                f"run {number} ({audit.kind}) passed without looking for copies that are {', '.join(untried)}: audit "
                "the set with these kinds, too, or let it out without them by naming all others with --kinds "
                f"({' '.join(kind for kind in kinds if kind not in untried)})"
            )


def _find_released(statement: Statement, offered: _ReleaseFiles) -> Released | None:
    """Find what was audited with this content: a folder's checksum is that of a text, which a file could hold."""
    return next(
        (
            one
            for one in statement.released
            if (one.what, one.sha256) == (offered.what, offered.sha256) and one.listing == offered.listing
        ),
        None,
    )


def _mismatch(statement: Statement, offered: _ReleaseFiles) -> str:
    """Say that something else was audited, and name the files that differ."""
    candidates = [one for one in statement.released if one.what == offered.what]
    start = f"{one_line(offered.path, 120)} is not what was audited"
    if not candidates:
        untied = next((audit.subject.why for audit in statement.audits if audit.subject.why), "")
        because = f" ({one_line(untied, 200)})" if untied else ""
        return f"{start}: the statement is tied to no {offered.what}{because}"
    nearest = max(candidates, key=lambda one: len(one.listing.items() & offered.listing.items()))
    if nearest.pixels is not None and (larger := _beyond(offered, nearest.pixels)):
        return f"{start}: {larger}: release what was audited (memorisk release), or audit what is to be released"
    difference = describe_differences(nearest.listing, offered.listing) if nearest.form == "folder" else None
    if difference is None or not nearest.listing.items() & offered.listing.items():
        difference = (
            f"audited was sha256 {nearest.sha256[:_SHOWN]}..., {plural(nearest.files, 'file', 'files')}, and this is "
            f"{offered.sha256[:_SHOWN]}..., {plural(len(offered.listing), 'file', 'files')}"
        )
    return f"{start}: {difference}. Release what was audited, or audit this and state it again"


def _beyond(offered: _ReleaseFiles, audited: PixelForm) -> str:
    """Describe the first PNG file that holds pixels of another form than the audited one; empty without one."""
    for name in sorted(offered.listing):
        with (offered.path / name).open("rb") as file:
            declared = PixelForm.of_png(file.read(_PNG_HEAD))
        if declared is not None and not audited.covers(declared):
            label = one_line(name or offered.path.name, 80)
            return f"the audit compared {audited.words}, and {label} holds {declared.words}"
    return ""


def _pass_sentence(statement: Statement, files: Sequence[_ReleaseFiles]) -> str:
    """Say what passed, under which runs."""
    parts = []
    for offered in files:
        one = _find_released(statement, offered)
        kinds = ", ".join(dict.fromkeys(statement.audits[n].kind for n in one.audits)) if one else ""
        parts.append(f"{one_line(offered.path, 120)} is what was audited ({kinds})")
    return f"{statement.verdict.status}: {'; '.join(parts)}"


def _notes(statement: Statement, files: Sequence[_ReleaseFiles]) -> Iterator[str]:
    """List what a pass does not say."""
    if statement.verdict.status == UNDECIDED:
        yield "could not be decided, and was let through as the settings request: this is not a pass"
        yield from (f"undecided: {reason}" for reason in statement.verdict.why)
    ties = {number for offered in files if (one := _find_released(statement, offered)) for number in one.audits}
    for number, audit in enumerate(statement.audits):
        if number not in ties:
            yield f"run {number + 1} ({audit.kind}) is about something else than these files"
        elif audit.status == PASS:  # whose word it rests on and what was tried come first among its reasons
            yield from (f"{audit.kind}: {sentence}" for sentence in (*audit.why[:2], *audit.limits))
    yield from (one.text for one in statement.verdict.contradictions)
