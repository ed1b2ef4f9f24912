"""Inputs of a release: statements, sealed results and keys."""

import contextlib
import json
import shutil
import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement
from memorisk.audits.release.tracking import record_of
from memorisk.report.statements.envelope import PAYLOAD_TYPE, Envelope, ResourceDescriptor, open_envelope
from memorisk.report.statements.model_card import model_card
from memorisk.report.statements.signatures import read_private_key, read_public_key, sign
from memorisk.report.statements.statement import content_sha256, read_statement
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.errors import MemoriskError
from tests.fuzz.folders import made
from tests.fuzz.packing import by_name, inside_json
from tests.fuzz.target import Target

for _module in ("images.sources.registry", "images.store"):
    import_module(f"memorisk.{_module}")  # now, while imports are instrumented

_OWN = ("verdict.json", "summary.json", "config.yaml")
_FILES = (
    *(f"clean/{name}" for name in (*_OWN, "log.jsonl", SEAL, "per_image.parquet")),
    *(f"filter/{name}" for name in ("filter.json", *_OWN)),
    *(f"watch/{name}" for name in ("watch.jsonl", "looks.parquet", "config.yaml")),
    *(f"quality/{name}" for name in ("quality.json", "tables/quality.parquet", "config.yaml")),
    *(f"feature/{name}" for name in ("verdict.json", "config.yaml")),
    *(f"losses/{name}" for name in _OWN),
)


def released_runs(folder: Path) -> Path:
    """A finished run of every kind that a statement knows."""
    from tests.audits.release.conftest import make_runs

    make_runs(folder)
    return folder / "runs"


def _chosen(data: bytes) -> str:
    return _FILES[data[0] % len(_FILES) if data else 0]


def run_seeds(folder: Path) -> list[bytes]:
    """The files of every kind of run as they are."""
    runs = made(released_runs)
    for kind in sorted({file.partition("/")[0] for file in _FILES}):
        _ask_run(runs / kind)
    return [bytes([k]) + (runs / file).read_bytes() for k, file in enumerate(_FILES)]


def ask_run(data: bytes, folder: Path) -> None:
    """A run of which one file was changed, sealed again unless it is the seal."""
    kind, _, name = _chosen(data).partition("/")
    run = folder / "run"
    shutil.copytree(made(released_runs) / kind, run)
    (run / name).write_bytes(data[1:])
    if name == "filter.json":
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            told = json.loads(data[1:])
            (run / "verdict.json").write_text(json.dumps({k: v for k, v in told.items() if k != "kept"}))
    if name != SEAL and (run / SEAL).is_file():
        write_seal(run, sealed_files(run))
    _ask_run(run)


def _ask_run(run: Path) -> None:
    """What a statement and its card, or a tracker say of it."""
    with contextlib.chdir(run):  # settings name folders from here: there are none
        if (run / "config.yaml").stat().st_size % 4 == 0:
            record_of(run)
        else:
            model_card(make_statement(run))


def repack_run(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
    """The file that is meant stays; it is changed as its kind asks for."""
    return data[:1] + by_name(Path(_chosen(data)).suffix, data[1:], change, size - 1)


def statement_seeds(folder: Path) -> list[bytes]:
    """Statements of one run and of several, and each of them signed."""
    told = [make_statement(made(released_runs) / kind).as_in_toto().as_bytes() for kind in ("clean", "filter")]
    several = make_statement([made(released_runs) / kind for kind in ("watch", "quality", "losses")])
    told.append(several.as_in_toto().as_bytes())
    return [*told, *map(_signed, told)]


def _signed(payload: bytes) -> bytes:
    """An envelope by the key of zeros."""
    signature = sign(payload, PAYLOAD_TYPE, Ed25519PrivateKey.from_private_bytes(bytes(32)))
    return Envelope(payload=payload, payload_type=PAYLOAD_TYPE, signatures=(signature,)).as_bytes()


def public_key(folder: Path) -> Path:
    """The public half of the key of zeros."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    (folder / "key.pub.pem").write_bytes(
        key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return folder / "key.pub.pem"


def ask_statement(data: bytes, folder: Path) -> None:
    """The gate's answer, with a key and without, whatever the statement holds; and its card."""
    file, image = folder / "privacy-statement.json", folder / "a.png"
    file.write_bytes(data)
    image.write_bytes(b"an image")
    for require, keys in (("pass", ()), ("not-fail", ()), ("pass", (made(public_key),))):
        answer = gate(file, images=[image], require=require, key=keys)
        assert not answer.passed  # no statement is about this image
        assert all(said.isprintable() for said in (answer.line, *answer.notes)), answer
    envelope = open_envelope(data, "FILE")
    model_card(read_statement(data if envelope is None else envelope.payload, "FILE"))


def repack_statement(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
    """The envelope changed, or what is in it: mostly with the checksum of what it says now, and signed again."""
    if zlib.crc32(data) % 4 == 0:
        return inside_json(data, change, size)
    with contextlib.suppress(MemoriskError, ValueError, RecursionError):
        if (envelope := open_envelope(data, "FILE")) is not None:
            return _signed(_repacked(envelope.payload, change, size))[:size]
    return _repacked(data, change, size)


def _repacked(payload: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
    """A statement that nobody signed, changed inside."""
    changed = inside_json(payload, change, size)
    try:
        found = json.loads(changed)
        told = found["predicate"]
        subject = [ResourceDescriptor(one["name"], one["digest"]["sha256"]) for one in found["subject"]]
        told["content_sha256"] = content_sha256({k: v for k, v in told.items() if k != "content_sha256"}, subject)
        return json.dumps(found).encode("utf-8", "surrogatepass")[:size]
    except (MemoriskError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # no longer a statement
        return changed


def key_seeds(folder: Path) -> list[bytes]:
    """Keys as OpenSSL and OpenSSH write them, public, private and encrypted, and of another algorithm."""
    form, public = serialization.PrivateFormat, serialization.PublicFormat
    found = []
    for key in (Ed25519PrivateKey.from_private_bytes(bytes(32)), derive_private_key(7, SECP256R1())):
        pem, half = serialization.Encoding.PEM, key.public_key()
        found += [
            key.private_bytes(pem, form.PKCS8, serialization.NoEncryption()),
            key.private_bytes(pem, form.OpenSSH, serialization.NoEncryption()),
            key.private_bytes(pem, form.PKCS8, serialization.BestAvailableEncryption(b"secret")),
            half.public_bytes(pem, public.SubjectPublicKeyInfo),
            half.public_bytes(serialization.Encoding.OpenSSH, public.OpenSSH),
        ]
    return found


def ask_key(data: bytes, folder: Path) -> None:
    """Read as a private key, and where that is refused as a public one."""
    file, secret = folder / "key.pem", folder / "secret"
    file.touch(mode=0o600)
    secret.touch(mode=0o600)
    file.write_bytes(data)
    secret.write_bytes(b"secret")
    try:
        read_private_key(file, f"file:{secret}" if b"ENCRYPTED" in data else None)
    except MemoriskError as refusal:
        if not str(refusal).isprintable():
            raise
        read_public_key(file)


def release_targets() -> Sequence[Target]:
    """Return the targets of a release."""
    return (
        Target("released", "a run of any kind: statement, track", run_seeds, ask_run, repack_run),
        Target("statement", "privacy-statement.json: gate", statement_seeds, ask_statement, repack_statement),
        Target("key", "keys that sign and verify statements", key_seeds, ask_key),
    )
