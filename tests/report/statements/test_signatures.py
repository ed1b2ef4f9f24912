"""Signatures and keys: what verifies, what is refused and in which words. Keys are real files."""

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from memorisk.report.statements.envelope import (
    PAYLOAD_TYPE,
    Envelope,
    InTotoStatement,
    ResourceDescriptor,
    Signature,
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
from memorisk.runs.errors import InputError, MissingExtraError, one_line

FIRST = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")  # RFC 8032, 7.1, test 1
)
SECOND = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")  # test 2
)
FIRST_ID, SECOND_ID = key_id(FIRST.public_key()), key_id(SECOND.public_key())
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the group: S and S + ORDER would both fit
STATEMENT = InTotoStatement(
    subject=(ResourceDescriptor("images/ä 1.png", "0" * 64), ResourceDescriptor("b.png", "f" * 64)),
    predicate={"verdict": {"status": "pass"}},
)
openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")


def signed(*keys: Ed25519PrivateKey, payload: bytes | None = None, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """An envelope with a signature by each key."""
    payload = STATEMENT.as_bytes() if payload is None else payload
    signatures = tuple(sign(payload, payload_type, key) for key in keys or (FIRST,))
    return Envelope(payload=payload, payload_type=payload_type, signatures=signatures)


def private_pem(key: Any, passphrase: bytes | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    """A private key as a file holds it."""
    lock = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, form, lock)


def public_pem(key: Any) -> bytes:
    """The public key as a file holds it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    """A file with this content and these permissions."""
    path.write_bytes(data)
    path.chmod(mode)
    return path


def refusal(call: Callable[..., Any], *arguments: Any, kind: type[InputError] = InputError) -> str:
    """The one line with which something is refused."""
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert type(caught.value) is kind
    line = str(caught.value)
    assert line == one_line(line)
    return line


# Signing and verifying


def test_a_signed_statement_verifies_and_is_read_from_its_file() -> None:
    envelope = open_envelope(signed().as_bytes(), "FILE")
    assert envelope == signed()
    assert verify(envelope, [FIRST.public_key()]) == (FIRST_ID,)
    assert InTotoStatement.from_bytes(envelope.payload, "FILE") == STATEMENT


def test_the_same_statement_and_key_give_the_same_file() -> None:
    assert signed().as_bytes() == signed().as_bytes()
    assert sign(b"hello world", "http://example.com/HelloWorld", FIRST).sig.hex() == (
        "e031d7dd99f8aa904abc48fb99a13c3bdbbd6e35c49cf2cb9f25d5509d8f5c94"
        "7c0d22dc2f7403a45bdf24e8f7a41fd23c7b25e898386e8c6c31be8abee60007"
    )


def test_a_signature_is_over_the_encoding_and_not_the_payload() -> None:
    envelope = signed()
    FIRST.public_key().verify(envelope.signatures[0].sig, pae(PAYLOAD_TYPE, envelope.payload))
    over_payload = Signature(sig=FIRST.sign(envelope.payload), keyid=FIRST_ID)
    refusal(verify, replace(envelope, signatures=(over_payload,)), [FIRST.public_key()], kind=SignatureError)


def test_every_flipped_bit_of_payload_and_signature_is_refused() -> None:
    envelope, keys = signed(payload=b'{"a":1}'), [FIRST.public_key()]
    for data, spoil in (
        (envelope.payload, lambda wrong: replace(envelope, payload=wrong)),
        (envelope.signatures[0].sig, lambda wrong: replace(envelope, signatures=(Signature(sig=wrong),))),
        (PAYLOAD_TYPE.encode(), lambda wrong: replace(envelope, payload_type=wrong.decode("latin-1"))),
    ):
        for bit in range(8 * len(data)):
            wrong = bytearray(data)
            wrong[bit // 8] ^= 1 << bit % 8
            refusal(verify, spoil(bytes(wrong)), keys, kind=SignatureError)


@settings(deadline=None, max_examples=600, derandomize=True)
@given(st.data())
def test_a_changed_byte_of_the_file_is_refused_or_changes_nothing_that_was_signed(data: st.DataObject) -> None:
    """Spaces, key ids and unknown members of an envelope are not signed: they may change, the statement not."""
    original = signed()
    file = bytearray(original.as_bytes())
    at = data.draw(st.integers(0, len(file) - 1))
    file[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != file[at]))
    try:
        found = open_envelope(bytes(file), "FILE")
        assert found is not None
        verify(found, [FIRST.public_key()])
    except InputError:
        return
    assert (found.payload, found.payload_type) == (original.payload, original.payload_type)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.binary(max_size=200), st.text(st.characters(exclude_categories=["Cs"]), max_size=50), st.binary(max_size=80))
def test_only_what_was_signed_verifies(payload: bytes, payload_type: str, forged: bytes) -> None:
    envelope, keys = signed(payload=payload, payload_type=payload_type), [FIRST.public_key()]
    assert verify(envelope, keys, payload_type) == (FIRST_ID,)
    refusal(verify, replace(envelope, signatures=(Signature(sig=forged),)), keys, payload_type, kind=SignatureError)
    refusal(verify, replace(envelope, payload=payload + b" "), keys, payload_type, kind=SignatureError)


def test_the_second_form_of_a_signature_is_refused() -> None:
    sig = signed().signatures[0].sig
    other = sig[:32] + (int.from_bytes(sig[32:], "little") + ORDER).to_bytes(32, "little")
    refusal(verify, replace(signed(), signatures=(Signature(sig=other),)), [FIRST.public_key()], kind=SignatureError)


def test_a_signature_for_another_type_is_no_signature_of_a_statement() -> None:
    other = signed(payload_type="application/vnd.example+json")
    replayed = replace(other, payload_type=PAYLOAD_TYPE)
    refusal(verify, replayed, [FIRST.public_key()], kind=SignatureError)
    line = refusal(verify, other, [FIRST.public_key()], kind=SignatureError)
    assert "of type 'application/vnd.example+json', not 'application/vnd.in-toto+json'" in line


def test_a_wrong_key_is_named() -> None:
    line = refusal(verify, signed(), [SECOND.public_key()], kind=SignatureError)
    assert line == f"signed by another key: by {FIRST_ID[:16]}..., not by {SECOND_ID[:16]}..."
    unnamed = replace(signed(), signatures=(replace(signed().signatures[0], keyid=""),))
    assert "not signed by key" in refusal(verify, unnamed, [SECOND.public_key()], kind=SignatureError)
    changed = replace(signed(), payload=b"{}")
    assert "changed after it was signed" in refusal(verify, changed, [FIRST.public_key()], kind=SignatureError)


def test_the_key_id_decides_nothing() -> None:
    envelope = signed()
    for keyid in ("", SECOND_ID, "any\nthing", "x" * 1000):
        renamed = replace(envelope, signatures=(replace(envelope.signatures[0], keyid=keyid),))
        assert verify(renamed, [FIRST.public_key()]) == (FIRST_ID,)
        refusal(verify, renamed, [SECOND.public_key()], kind=SignatureError)


def test_one_of_several_keys_or_signatures_is_enough_and_each_signer_counts_once() -> None:
    keys = [FIRST.public_key(), SECOND.public_key()]
    assert verify(signed(SECOND), keys) == (SECOND_ID,)
    assert verify(signed(SECOND, FIRST), keys) == (FIRST_ID, SECOND_ID)
    assert verify(signed(SECOND, FIRST), keys[:1]) == (FIRST_ID,)
    assert verify(signed(FIRST, FIRST), [*keys, *keys]) == (FIRST_ID,)
    broken = Signature(sig=bytes(64), keyid=FIRST_ID)
    assert verify(replace(signed(), signatures=(broken, *signed().signatures)), keys) == (FIRST_ID,)


def test_no_key_verifies_nothing() -> None:
    assert "no public key" in refusal(verify, signed(), [])


# Keys


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_private_keys_are_read_in_both_forms(tmp_path: Path, form: PrivateFormat) -> None:
    key = read_private_key(written(tmp_path / "key", private_pem(FIRST, form=form)))
    assert sign(b"x", "t", key) == sign(b"x", "t", FIRST)


def test_public_keys_are_read_in_both_forms(tmp_path: Path) -> None:
    openssh = FIRST.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" someone@somewhere\n"
    for data in (public_pem(FIRST), openssh, b"An explanation\n" + public_pem(FIRST)):
        assert key_id(read_public_key(written(tmp_path / "key", data, 0o644))) == FIRST_ID


@openssl
def test_keys_of_openssl_are_read_and_the_id_is_what_openssl_gives(tmp_path: Path) -> None:
    def run(*arguments: str) -> bytes:
        return subprocess.run(["openssl", *arguments], cwd=tmp_path, capture_output=True, check=True).stdout

    run("genpkey", "-algorithm", "ed25519", "-out", "key.pem")
    run("pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
    (tmp_path / "word").write_text("a pass phrase\nand more\n")
    (tmp_path / "word").chmod(0o600)
    run("genpkey", "-algorithm", "ed25519", "-aes-256-cbc", "-pass", "file:word", "-out", "locked.pem")
    key, public = read_private_key(tmp_path / "key.pem"), read_public_key(tmp_path / "public.pem")
    assert key_id(public) == key_id(key.public_key())
    (tmp_path / "der").write_bytes(run("pkey", "-pubin", "-in", "public.pem", "-outform", "DER"))
    assert run("dgst", "-sha256", "-r", "der").split()[0].decode() == key_id(public)
    locked = read_private_key(tmp_path / "locked.pem", f"file:{tmp_path / 'word'}")
    run("pkey", "-in", "locked.pem", "-passin", "file:word", "-pubout", "-out", "public.pem")
    assert key_id(locked.public_key()) == key_id(read_public_key(tmp_path / "public.pem"))


def test_a_passphrase_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = written(tmp_path / "key", private_pem(FIRST, "schlüssel wort".encode()))
    word = written(tmp_path / "word", "schlüssel wort\r\nsecond line".encode())
    monkeypatch.setenv("WORD", "schlüssel wort")
    monkeypatch.setenv("OTHER", "wort")
    monkeypatch.setenv("EMPTY", "")
    for source in ("env:WORD", f"file:{word}"):
        assert key_id(read_private_key(key, source).public_key()) == FIRST_ID
    assert "is encrypted" in refusal(read_private_key, key)
    assert "its passphrase is another one" in refusal(read_private_key, key, "env:OTHER")
    for name in ("EMPTY", "ABSENT"):
        assert f"{name} holds no passphrase" in refusal(read_private_key, key, f"env:{name}")
    word.chmod(0o640)
    assert "mode 0640" in refusal(read_private_key, key, f"file:{word}")
    plain = written(tmp_path / "plain", private_pem(FIRST))
    assert "is not encrypted" in refusal(read_private_key, plain, "env:WORD")


@pytest.mark.parametrize("source", ["hunter2", "pass:hunter2", "hunter2:", "env:", "file:", "", "ENV:hunter2"])
def test_a_passphrase_as_an_argument_is_refused_and_never_repeated(tmp_path: Path, source: str) -> None:
    key = written(tmp_path / "key", private_pem(FIRST, b"hunter2"))
    line = refusal(read_private_key, key, source)
    assert "env:NAME or file:PATH" in line
    assert "hunter2" not in line


def test_an_encrypted_openssh_key_is_read_or_what_it_needs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs the program ssh-keygen")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "word", "-f", str(key)], check=True)
    monkeypatch.setenv("WORD", "word")
    assert "is encrypted" in refusal(read_private_key, key)
    if importlib.util.find_spec("bcrypt") is None:
        assert "cryptography[ssh]" in refusal(read_private_key, key, "env:WORD")
    else:
        found = read_private_key(key, "env:WORD").public_key()
        assert key_id(found) == key_id(read_public_key(key.with_suffix(".pub")))


@pytest.mark.skipif(os.name != "posix", reason="permission bits of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601, 0o777])
def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    key = written(tmp_path / "key", private_pem(FIRST), mode)
    line = refusal(read_private_key, key)
    assert f"mode {mode:04o}" in line
    assert line.endswith(f"chmod 600 {key}")
    for private in (0o600, 0o400):
        key.chmod(private)
        assert key_id(read_private_key(key).public_key()) == FIRST_ID


def test_a_public_key_signs_nothing_and_a_private_one_verifies_nothing(tmp_path: Path) -> None:
    public = written(tmp_path / "public", public_pem(FIRST), 0o644)
    assert "is a public key" in refusal(read_private_key, public)
    openssh = FIRST.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert "is a public key" in refusal(read_private_key, written(public, openssh, 0o644))
    private = written(tmp_path / "private", private_pem(FIRST))
    assert "openssl pkey -in" in refusal(read_public_key, private)
    assert "openssl pkey -in" in refusal(read_public_key, written(private, public_pem(FIRST) + private_pem(FIRST)))
    assert "ssh-keygen -y" in refusal(read_public_key, written(private, private_pem(FIRST, form=PrivateFormat.OpenSSH)))


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (rsa.generate_private_key(65537, 2048), "RSA"),
        (ec.generate_private_key(ec.SECP256R1()), "EC"),
        (ed448.Ed448PrivateKey.generate(), "Ed448"),
    ],
    ids=["RSA", "EC", "Ed448"],
)
def test_other_kinds_of_keys_are_refused_by_name(tmp_path: Path, other: Any, kind: str) -> None:
    key = written(tmp_path / "key", private_pem(other))
    assert f"is a key for {kind}," in refusal(read_private_key, key)
    assert f"is a key for {kind}," in refusal(read_public_key, written(key, public_pem(other)))


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_a_damaged_private_key_is_refused(tmp_path: Path, form: PrivateFormat) -> None:
    data = private_pem(FIRST, form=form)
    for cut in range(0, len(data) - 10, 9):
        line = refusal(read_private_key, written(tmp_path / "key", data[:cut]))
        assert "damaged private key" in line or "not a private key" in line


def test_a_damaged_public_key_is_refused(tmp_path: Path) -> None:
    openssh = FIRST.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    for data, whole in ((public_pem(FIRST), 26), (openssh, 0)):
        for cut in range(0, len(data) - whole, 7):
            refusal(read_public_key, written(tmp_path / "key", data[:cut]))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.binary(max_size=200), st.sampled_from(["", "PRIVATE", "PUBLIC", "ENCRYPTED PRIVATE", "OPENSSH PRIVATE", "EC"])
)
def test_any_file_is_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str) -> None:
    pem = f"-----BEGIN {kind} KEY-----\n".encode() + base64.encodebytes(data) + f"-----END {kind} KEY-----\n".encode()
    path = tmp_path_factory.mktemp("key") / "key"
    for content in (data, pem if kind else b"ssh-ed25519 " + base64.b64encode(data)):
        refusal(read_private_key, written(path, content))
        refusal(read_public_key, written(path, content))


def test_files_that_cannot_be_keys_are_refused(tmp_path: Path) -> None:
    for read in (read_private_key, read_public_key):
        assert "cannot be read" in refusal(read, tmp_path)
        assert "cannot be read" in refusal(read, tmp_path / "absent\n")
        assert "too large" in refusal(read, written(tmp_path / "large", b" " * ((1 << 16) + 1)))


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = written(tmp_path / "key", private_pem(FIRST))
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    for read in (read_private_key, read_public_key):
        assert "pip install 'memorisk[sign]'" in refusal(read, key, kind=MissingExtraError)


def test_an_envelope_is_plain_json() -> None:
    found = json.loads(signed().as_bytes())
    assert [*found] == ["payloadType", "payload", "signatures"]
    assert found["signatures"][0]["keyid"] == FIRST_ID


def test_a_point_in_compressed_form_is_of_another_algorithm(tmp_path: Path) -> None:
    """cryptography says "not implemented" of it, which is not a refusal of ours (found by fuzzing)."""
    key = ec.derive_private_key(7, ec.SECP256R1()).public_key()
    point = key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    parts = (b"ecdsa-sha2-nistp256", b"nistp256", point)
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    file = tmp_path / "key.pub"
    file.write_bytes(b"ecdsa-sha2-nistp256 " + base64.b64encode(blob))
    with pytest.raises(InputError, match="is not an Ed25519 key"):
        read_public_key(file)
