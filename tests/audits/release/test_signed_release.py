"""Who says so: statements that were forged, edited, signed by another key, or are of another set."""

import base64
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from memorisk.report.statements.envelope import ResourceDescriptor
from memorisk.report.statements.statement import content_sha256
from tests.audits.release.conftest import OF, PASSES, TRIED
from tests.commands import ROOT, answer, refusal

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")


def make_key(folder: Path, name: str, secret: bytes = b"") -> Path:
    """Write a key pair as OpenSSL does: NAME.pem, which its owner alone may read, and NAME.pub.pem."""
    private = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8
    kept = serialization.BestAvailableEncryption(secret) if secret else serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.touch(mode=0o600)
    file.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, kept))
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / f"{name}.pub.pem").write_bytes(public)
    return file


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``ours.pem`` and ``theirs.pem``, and their public keys."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        make_key(folder, name)
    return folder


@pytest.fixture
def signed(runs: Path, keys: Path, tmp_path: Path, capsys) -> Path:
    """The signed statement of a set that passes."""
    command = ("statement", "runs/clean", "--images", "clean", "--sign", keys / "ours.pem", "--out", tmp_path / "s")
    assert answer(capsys, *command)[0] == 0
    return tmp_path / "s" / "privacy-statement.json"


def asked(capsys, statement: Path, images: object, *more: object) -> tuple[int, str]:
    """Exit code and first line of the gate."""
    code, said, _ = answer(capsys, "gate", statement, "--images", images, "--kinds", *TRIED, *more)
    return code, said.splitlines()[0]


def payload(statement: Path) -> Any:
    """What a signed statement says."""
    return json.loads(base64.b64decode(json.loads(statement.read_text())["payload"]))


def with_content(found: Any) -> Any:
    """The same with the checksum of its content as it should be."""
    told = found["predicate"]
    subject = [ResourceDescriptor(one["name"], one["digest"]["sha256"]) for one in found["subject"]]
    told["content_sha256"] = content_sha256({k: v for k, v in told.items() if k != "content_sha256"}, subject)
    return found


def test_a_signed_statement_passes_under_its_key_alone(runs, signed, keys, capsys) -> None:
    code, line = asked(capsys, signed, "clean", "--key", keys / "ours.pub.pem", "--require-signature")
    assert code == 0
    assert "signed by key " in line
    code, line = asked(capsys, signed, "clean", "--key", keys / "theirs.pub.pem")
    assert code == 1
    assert "signed by another key" in line
    code, line = asked(capsys, signed, "clean", "--key", keys / "theirs.pub.pem", "--key", keys / "ours.pub.pem")
    assert code == 0
    code, line = asked(capsys, signed, "clean")
    assert code == 0
    assert "signed, but not verified: as its author claims" in line
    code, line = asked(capsys, signed, "clean", "--require-signature")
    assert code == 1
    assert "a verified signature is required" in line


def test_an_unsigned_statement_is_said_to_be(runs, tmp_path, keys, capsys) -> None:
    assert answer(capsys, "statement", "runs/clean", "--out", tmp_path / "s")[0] == 0
    code, line = asked(capsys, tmp_path / "s", "clean")
    assert code == 0
    assert line.endswith("unsigned: as its author claims")
    for more, said in (
        (("--require-signature",), "a verified signature is required"),
        (("--key", keys / "ours.pub.pem"), "is not signed"),
    ):
        code, line = asked(capsys, tmp_path / "s", "clean", *more)
        assert code == 1
        assert said in line
    code, line = asked(capsys, "runs/clean", "clean", "--key", keys / "ours.pub.pem")
    assert code == 1
    assert "is a run, and only statements are signed" in line


def test_a_forged_statement_passes_for_nobodys_but_its_authors(runs, tmp_path, keys, capsys) -> None:
    """Its status and all checksums are made anew: only a signature tells."""
    answer(capsys, "release", "runs/copies", tmp_path / "copies")
    answer(capsys, "statement", "runs/copies", "--images", tmp_path / "copies", "--out", tmp_path / "s")
    statement = tmp_path / "s" / "privacy-statement.json"
    found = json.loads(statement.read_text())
    found["predicate"]["verdict"] |= {"status": "pass", "why": []}
    found["predicate"]["audits"][0]["status"] = "pass"
    statement.write_text(json.dumps(with_content(found)))
    code, line = asked(capsys, statement, tmp_path / "copies")
    assert code == 0
    assert line.endswith("unsigned: as its author claims")
    assert asked(capsys, statement, tmp_path / "copies", "--require-signature")[0] == 1
    assert asked(capsys, statement, tmp_path / "copies", "--key", keys / "ours.pub.pem")[0] == 1


def test_an_edited_statement_is_refused(runs, signed, keys, capsys) -> None:
    envelope, found = json.loads(signed.read_text()), payload(signed)
    found["predicate"]["audits"][0]["level"] = 0.5
    envelope["payload"] = base64.b64encode(json.dumps(with_content(found)).encode()).decode()
    signed.write_text(json.dumps(envelope))
    code, line = asked(capsys, signed, "clean", "--key", keys / "ours.pub.pem")
    assert code == 1
    assert "changed after it was signed" in line


def test_a_statement_signed_anew_by_somebody_else_is_refused(runs, signed, keys, tmp_path, capsys) -> None:
    command = ("statement", "runs/clean", "--images", "clean", "--sign", keys / "theirs.pem", "--out", tmp_path / "t")
    assert answer(capsys, *command)[0] == 0
    theirs = tmp_path / "t" / "privacy-statement.json"
    assert "signed by another key" in asked(capsys, theirs, "clean", "--key", keys / "ours.pub.pem")[1]
    envelope = json.loads(theirs.read_text())
    envelope["signatures"][0]["keyid"] = json.loads(signed.read_text())["signatures"][0]["keyid"]
    theirs.write_text(json.dumps(envelope))
    code, line = asked(capsys, theirs, "clean", "--key", keys / "ours.pub.pem")
    assert code == 1
    assert "signed by another one that took its id" in line


def test_a_statement_of_another_set_is_refused(runs, signed, keys, tmp_path, capsys) -> None:
    shutil.copytree("train", tmp_path / "train")
    for images in ("copies", "train", tmp_path / "train"):
        code, line = asked(capsys, signed, images, "--key", keys / "ours.pub.pem")
        assert code == 1
        assert "is not what was audited" in line


def test_a_key_that_cannot_be_used_stops_before_anything_is_written(runs, keys, tmp_path, capsys) -> None:
    for key, said in ((keys / "ours.pub.pem", "public key"), (keys / "none.pem", "does not exist")):
        line = refusal(capsys, "statement", "runs/clean", "--sign", key, "--out", tmp_path / "out")
        assert said in line
    assert not (tmp_path / "out").exists()


def test_the_three_commands_of_the_page_audit_sign_and_verify(made: Path, tmp_path, monkeypatch, capsys) -> None:
    page = (ROOT / "docs" / "signing.md").read_text("utf-8").partition("## Three commands")[2]
    commands = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    make_key(tmp_path, "release-key", b"a secret")
    (tmp_path / "passphrase").touch(mode=0o600)
    (tmp_path / "passphrase").write_text("a secret\n")
    for name, folder in {"TRAIN": "train", "SET": "clean", "OTHERS": "held"}.items():
        shutil.copytree(made / folder, name)
    small = [word for name, value in (PASSES | OF).items() for word in _flag(name, value)]
    for command, more in zip(commands, (small, [], ["--kinds", *TRIED]), strict=True):
        code, out, err = answer(capsys, *shlex.split(command)[1:], *more)
        assert code == 0, (command, out, err)
    assert "signed by key " in out


def _flag(name: str, value: object) -> list[str]:
    """A setting as the command line has it."""
    return ["--" + name.replace("_", "-"), *map(str, value if isinstance(value, tuple) else (value,))]
