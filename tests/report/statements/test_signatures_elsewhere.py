"""Other people's tools: what they sign verifies here, and what is signed here verifies with them."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from memorisk.report.statements.envelope import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    Envelope,
    InTotoStatement,
    ResourceDescriptor,
    open_envelope,
    pae,
)
from memorisk.report.statements.signatures import (
    SignatureError,
    key_id,
    read_private_key,
    read_public_key,
    sign,
    verify,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STATEMENT = InTotoStatement(
    subject=(ResourceDescriptor("images/ä 1.png", "0" * 64), ResourceDescriptor("b.png", "f" * 64)),
    predicate={"verdict": {"status": "pass"}, "figures": [{"value": 0.25, "low": None, "text": "ß"}]},
)


def signed(key: Ed25519PrivateKey = KEY) -> Envelope:
    """A signed statement."""
    payload = STATEMENT.as_bytes()
    return Envelope(payload=payload, payload_type=PAYLOAD_TYPE, signatures=(sign(payload, PAYLOAD_TYPE, key),))


def openssl_version() -> int:
    """The first number of its version; pkeyutl signs and verifies with Ed25519 from 3 on. 0: there is none."""
    if shutil.which("openssl") is None:
        return 0
    said = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"OpenSSL (\d+)\.", said)
    return int(found[1]) if found else 0


needs_openssl = pytest.mark.skipif(openssl_version() < 3, reason="needs the program openssl, 3 or newer")


def test_securesystemslib_verifies_what_is_signed_here() -> None:
    dsse = pytest.importorskip("securesystemslib.dsse")
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    found = dsse.Envelope.from_dict(json.loads(signed().as_bytes()))
    assert found.pae() == pae(PAYLOAD_TYPE, STATEMENT.as_bytes())
    keyid = key_id(KEY.public_key())
    key = SSlibKey.from_crypto(KEY.public_key(), keyid=keyid)
    assert [*found.verify([key], 1)] == [keyid]
    found.payload += b" "
    with pytest.raises(VerificationError):
        found.verify([key], 1)


def test_what_securesystemslib_signs_verifies_here() -> None:
    dsse = pytest.importorskip("securesystemslib.dsse")
    from securesystemslib.signer import CryptoSigner

    theirs = dsse.Envelope(STATEMENT.as_bytes(), PAYLOAD_TYPE, {})
    theirs.sign(CryptoSigner(KEY))
    found = open_envelope(json.dumps(theirs.to_dict()).encode(), "FILE")
    assert found is not None
    assert verify(found, [KEY.public_key()]) == (key_id(KEY.public_key()),)
    assert found.signatures[0].sig == signed().signatures[0].sig
    with pytest.raises(SignatureError, match="signed by another key"):
        verify(found, [Ed25519PrivateKey.generate().public_key()])


def test_in_toto_reads_the_statement_that_is_written_here() -> None:
    statements = pytest.importorskip("in_toto_attestation.v1.statement")
    from google.protobuf import json_format

    found = json_format.Parse(STATEMENT.as_bytes(), statements.spb.Statement())
    statements.Statement.copy_from_pb(found).validate()
    assert (found.type, found.predicate_type) == (statements.STATEMENT_TYPE_URI, PREDICATE_TYPE)
    assert {one.name: one.digest["sha256"] for one in found.subject} == {
        one.name: one.sha256 for one in STATEMENT.subject
    }
    assert json_format.MessageToDict(found.predicate) == STATEMENT.predicate


def test_the_statement_that_in_toto_writes_is_read_here() -> None:
    statements = pytest.importorskip("in_toto_attestation.v1.statement")
    from google.protobuf import json_format
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor as Theirs

    subjects = [Theirs(name=one.name, digest={"sha256": one.sha256}).pb for one in STATEMENT.subject]
    theirs = statements.Statement(subjects, PREDICATE_TYPE, dict(STATEMENT.predicate))
    theirs.validate()
    text = json_format.MessageToJson(theirs.pb)
    assert InTotoStatement.from_bytes(text.encode(), "FILE") == STATEMENT


def block_of_page(language: str, word: str) -> str:
    """The block of docs/signing.md in that language that has this word in it."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "signing.md").read_text("utf-8")
    return next(block for block in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) if word in block)


@needs_openssl
def test_the_commands_of_the_page_make_a_key_and_verify_with_it(tmp_path: Path) -> None:
    def run(block: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-ec", block], cwd=tmp_path, capture_output=True, text=True, check=False)

    made = run(block_of_page("sh", "genpkey").replace(" -aes-256-cbc", ""))  # which asks for a passphrase
    assert made.returncode == 0, made.stderr
    key = read_private_key(tmp_path / "release-key.pem")
    assert (
        made.stdout.split()[0] == key_id(read_public_key(tmp_path / "release-key.pub.pem")) == key_id(key.public_key())
    )
    statement = tmp_path / "privacy-statement.json"
    statement.write_bytes(signed(key).as_bytes())
    assert run(block_of_page("shell", "python3 -c")).stdout.encode() == STATEMENT.as_bytes() + b"\n"
    assert "Verified Successfully" in run(block_of_page("shell", "pkeyutl")).stdout
    if importlib.util.find_spec("securesystemslib") is not None:
        (tmp_path / "check.py").write_text(block_of_page("python", "securesystemslib"))
        shown = run(f"{shlex.quote(sys.executable)} check.py")
        assert shown.returncode == 0, shown.stderr
    statement.write_bytes(signed(KEY).as_bytes())
    assert run(block_of_page("shell", "pkeyutl")).returncode != 0


@needs_openssl
def test_openssl_verifies_what_is_signed_here(tmp_path: Path) -> None:
    envelope = signed()
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    message = pae(PAYLOAD_TYPE, envelope.payload)
    for data, code in ((message, 0), (message[:-1], 1), (envelope.payload, 1)):
        for name, content in (("key", pem), ("sig", envelope.signatures[0].sig), ("data", data)):
            (tmp_path / name).write_bytes(content)
        line = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "key", "-in", "data", "-sigfile", "sig"]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False)
        assert (done.returncode == 0) == (code == 0), done.stderr
