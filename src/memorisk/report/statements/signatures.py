"""Signatures of statements: Ed25519 (RFC 8032) over the pre-authentication encoding of an envelope.

The library ``cryptography`` (extra ``sign``) does the arithmetic and reads the keys: PEM as OpenSSL writes it (PKCS#8,
SubjectPublicKeyInfo) and OpenSSH's own form. It is loaded when a key is read, never before.

A key's id is the SHA-256 of its SubjectPublicKeyInfo in DER, in hexadecimal digits, so that anybody can compute it:
``openssl pkey -pubin -in PUBLIC.pem -outform DER | sha256sum``. It differs from the default of securesystemslib, which
hashes a JSON object of its own; DSSE leaves the choice to the signer, and no verifier may rely on it.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorisk.report.statements.envelope import PAYLOAD_TYPE, Envelope, Signature, pae
from memorisk.runs.errors import InputError, MissingExtraError, one_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_LARGEST_KEY = 1 << 16  # bytes: an RSA key of 16,384 bits, the largest that OpenSSL verifies with, takes 13,000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PRIVATE = b"PRIVATE KEY-----"
_OPENSSH = b"OPENSSH " + _PRIVATE
_SHOWN = 16  # digits of a key's id that a message shows
_MAKE_KEY = "make one with openssl genpkey -algorithm ed25519 -out KEY.pem"
_MAKE_PUBLIC = "openssl pkey -in KEY.pem -pubout -out PUBLIC.pem"


@dataclass(frozen=True)
class _File:
    """Small file as it was read."""

    data: bytes
    mode: int
    """Kind and permission bits of the file."""


class SignatureError(InputError):
    """No signature of an envelope verifies with the given keys, or its payload is of another type."""


def read_private_key(path: str | Path, passphrase: str | None = None) -> "Ed25519PrivateKey":
    """Read an Ed25519 private key.

    Args:
        path: Path of a file in PEM (PKCS#8) or in OpenSSH's form that only its owner may read.
        passphrase: Place of an encrypted key's passphrase: ``env:NAME``, an environment variable, or
            ``file:PATH``, the first line of a file. Never the passphrase itself: other users see arguments.

    Raises:
        InputError: The file is not such a key, others may read it, or the passphrase does not open it.
        MissingExtraError: cryptography is not installed.
    """
    serialization = _serialization()
    name, file = one_line(path), _read(Path(path))
    if _PRIVATE not in file.data:
        if b"PUBLIC KEY-----" in file.data or file.data.startswith(b"ssh-"):
            raise InputError(f"{name} is a public key: sign with the private key that belongs to it")
        raise InputError(f"{name} is not a private key in PEM: {_MAKE_KEY}")
    data = _secret(file, name)
    load = serialization.load_ssh_private_key if _OPENSSH in data else serialization.load_pem_private_key
    secret = None if passphrase is None else _passphrase(passphrase)
    return _ed25519(lambda: _unlocked(load, data, secret, name), name, "PrivateKey")


def read_public_key(path: str | Path) -> "Ed25519PublicKey":
    """Read an Ed25519 public key.

    Args:
        path: Path of a file in PEM (SubjectPublicKeyInfo) or in OpenSSH's form (``ssh-ed25519 ...``).

    Raises:
        InputError: The file is not such a key.
        MissingExtraError: cryptography is not installed.
    """
    serialization = _serialization()
    name, data = one_line(path), _read(Path(path)).data
    if _PRIVATE in data:
        make = "ssh-keygen -y -f KEY > PUBLIC" if _OPENSSH in data else _MAKE_PUBLIC
        raise InputError(f"{name} holds a private key, and verifying needs the public one: {make}")
    openssh = data.startswith((b"ssh-", b"ecdsa-", b"sk-"))
    load = serialization.load_ssh_public_key if openssh else serialization.load_pem_public_key
    return _ed25519(lambda: load(data), name, "PublicKey")


def key_id(public_key: "Ed25519PublicKey") -> str:
    """Return the id of a key: SHA-256 of its SubjectPublicKeyInfo in DER, 64 hexadecimal digits."""
    form = _serialization()
    der = public_key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def sign(payload: bytes, payload_type: str, private_key: "Ed25519PrivateKey") -> Signature:
    """Sign a payload. The same payload and key give the same signature.

    Args:
        payload: Exact bytes that the envelope will hold.
        payload_type: Type of the payload, which determines how to parse it.
        private_key: Key from `read_private_key`.
    """
    return Signature(sig=private_key.sign(pae(payload_type, payload)), keyid=key_id(private_key.public_key()))


def verify(
    envelope: Envelope, public_keys: Sequence["Ed25519PublicKey"], payload_type: str = PAYLOAD_TYPE
) -> tuple[str, ...]:
    """Verify an envelope over the exact bytes of its payload. Parse the payload only after this.

    Every key is tried on every signature, whatever ``keyid`` says. One signature by one of the keys is enough.

    Args:
        envelope: Envelope that was received.
        public_keys: Keys that are trusted.
        payload_type: Type of payload that is accepted.

    Returns:
        Ids of the trusted keys that signed, each once, in the order of ``public_keys``.

    Raises:
        SignatureError: None of the keys signed this payload, or one signed something of another type.
        InputError: No key is given.
    """
    if not public_keys:
        raise InputError("no public key is given to verify with")
    trusted = {key_id(key): key for key in public_keys}
    message = pae(envelope.payload_type, envelope.payload)
    signers = tuple(name for name, key in trusted.items() if _signed(envelope, key, message))
    if not signers:
        raise SignatureError(_refusal(envelope, tuple(trusted)))
    if envelope.payload_type != payload_type:
        payload_shown = one_line(repr(envelope.payload_type), 80)
        raise SignatureError(
            f"the signature is good, but what was signed is of type {payload_shown}, not {payload_type!r}"
        )
    return signers


def _signed(envelope: Envelope, key: "Ed25519PublicKey", message: bytes) -> bool:
    """Return whether one of the signatures is by this key."""
    return any(_verifies(key, one.sig, message) for one in envelope.signatures)


def _verifies(key: "Ed25519PublicKey", sig: bytes, message: bytes) -> bool:
    """Return whether a signature verifies."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(sig, message)
    except InvalidSignature:
        return False
    return True


def _refusal(envelope: Envelope, trusted: tuple[str, ...]) -> str:
    """Explain why no signature verifies, as far as the unsigned hints show."""
    trusted_shown = ", ".join(_short_id(name) for name in trusted)
    hints = {one.keyid for one in envelope.signatures if one.keyid}
    if hints & {*trusted}:
        return f"changed after it was signed by key {trusted_shown}, or signed by another one that took its id"
    if hints:
        others = ", ".join(_short_id(name) for name in sorted(hints))
        return f"signed by another key: by {others}, not by {trusted_shown}"
    return f"not signed by key {trusted_shown}, or changed after it was signed"


def _short_id(keyid: str) -> str:
    """Return a key's id, shortened to fit into a message."""
    return one_line(keyid, 80) if len(keyid) <= _SHOWN else f"{one_line(keyid[:_SHOWN], 80)}..."


def _read(path: Path) -> _File:
    """Read a small file, and its permissions."""
    try:
        with path.open("rb") as file:
            content = _File(file.read(_LARGEST_KEY + 1), os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise InputError(f"{one_line(path)} cannot be read: {one_line(error.strerror or error, 80)}") from None
    if len(content.data) > _LARGEST_KEY:
        raise InputError(f"{one_line(path)} is too large for a key: at most {_LARGEST_KEY:,} bytes")
    return content


def _secret(file: _File, name: str) -> bytes:
    """Return the contents of a file if only its owner may read it."""
    if os.name == "posix" and stat.S_ISREG(file.mode) and file.mode & _OTHERS:
        mode = f"{stat.S_IMODE(file.mode):04o}"
        raise InputError(f"{name} may be read or changed by other users (mode {mode}): chmod 600 {name}")
    return file.data


def _passphrase(source: str) -> bytes:
    """Fetch a passphrase from its place. Messages never repeat ``source``: it may be the passphrase itself."""
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        secret, where = os.fsencode(os.environ.get(place, "")), f"the environment variable {one_line(place, 80)}"
    elif kind == "file" and place:
        secret, where = _secret(_read(Path(place)), one_line(place)).partition(b"\n")[0].rstrip(b"\r"), one_line(place)
    else:
        raise InputError("a passphrase is read from env:NAME or file:PATH, never from the command line")
    if not secret:
        raise InputError(f"{where} holds no passphrase")
    return secret


def _unlocked(load: Callable[..., Any], data: bytes, secret: bytes | None, name: str) -> Any:
    """Load a private key with its passphrase; cryptography raises TypeError if one is missing or not needed."""
    try:
        return load(data, secret)
    except TypeError:
        if secret is None:
            raise InputError(
                f"{name} is encrypted: say where its passphrase is, --passphrase env:NAME or file:PATH"
            ) from None
        raise InputError(f"{name} is not encrypted: leave the passphrase out") from None
    except ValueError:
        wrong = "" if secret is None else ", or its passphrase is another one"
        raise InputError(f"{name} is a damaged private key{wrong}") from None


def _ed25519(load: Callable[[], Any], name: str, kind: str) -> Any:
    """Load a key that must be Ed25519.

    Args:
        load: Function that returns the key.
        name: Name of its file in messages.
        kind: End of the name of its class: ``PrivateKey`` or ``PublicKey``.
    """
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = load()
    except (UnsupportedAlgorithm, NotImplementedError) as error:  # the latter for curve points in compressed form
        if "bcrypt" in str(error):
            raise InputError(
                f"{name} is an encrypted OpenSSH key: pip install 'cryptography[ssh]' to read it"
            ) from None
        raise InputError(f"{name} is not an Ed25519 key: {_MAKE_KEY}") from None
    except ValueError:
        raise InputError(f"{name} is not a public key in PEM, or a damaged one: {_MAKE_PUBLIC}") from None
    key_type = type(key).__name__.removeprefix("_").removesuffix(kind)
    if key_type != "Ed25519":
        raise InputError(f"{name} is a key for {key_type}, and statements are signed with Ed25519: {_MAKE_KEY}")
    return key


def _serialization() -> Any:
    """Load the module that reads and writes keys.

    Raises:
        MissingExtraError: cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise MissingExtraError("cryptography", "sign", "signing or verifying a statement") from None
    return serialization
