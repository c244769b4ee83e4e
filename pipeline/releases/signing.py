"""Signatures of releases: Ed25519 (RFC 8032) over a manifest's bytes, and the keys that are trusted.

A public key is written as ``ed25519:`` and its 32 bytes in base64.
"""

import base64
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipeline.errors import ConfigError
from pipeline.releases.manifest import MOST_MANIFEST_BYTES, Manifest, decode_manifest

MOST_ENVELOPE_BYTES = MOST_MANIFEST_BYTES + 1024
_PREFIX = "ed25519:"
_KEY_BYTES = 32
_CONTEXT = b"foveate-release-1\n"
"""Signed ahead of the manifest, so that what a key signs elsewhere is never taken for a release."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is published: the manifest as the very bytes that were signed, who signed, and the signature in base64."""

    manifest: msgspec.Raw
    key: str
    signature: str

    def encode(self) -> bytes:
        """The message. It holds the manifest as it is, so that it can be read with any JSON tool."""
        return msgspec.json.encode(self)


class Release(msgspec.Struct, frozen=True):
    """A manifest whose signature was found right; ``digest`` tells releases apart."""

    manifest: Manifest
    envelope: bytes
    digest: str


class ReleaseRefused(Exception):  # noqa: N818 - an expected end, told in words that are ready to be shown
    """A message is no release that can be trusted; says why in a sentence."""


class SigningKey:
    """A private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def new(cls) -> "SigningKey":
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def of_file(cls, path: Path) -> "SigningKey":
        """The key in a file; where there is none, a new one is made, for its owner's eyes alone. Raises ConfigError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                return cls(Ed25519PrivateKey.from_private_bytes(base64.b64decode(path.read_text().strip())))
            made = cls.new()
            with os.fdopen(handle, "w") as file:
                file.write(base64.b64encode(made._key.private_bytes_raw()).decode() + "\n")  # noqa: SLF001 - its own
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigError(
                f"The signing key {path} cannot be used ({error.strerror}): name another file."
            ) from error
        except ValueError as error:  # no base64, or not 32 bytes
            raise ConfigError(f"{path} holds no signing key: remove it, and a new one is made.") from error
        return made

    @property
    def public(self) -> str:
        """The public key, as it is written into ``models.trusted_keys``."""
        return _PREFIX + base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, manifest: Manifest) -> Release:
        """Sign a manifest."""
        data = manifest.encode()
        signature = base64.b64encode(self._key.sign(_CONTEXT + data)).decode()
        envelope = Envelope(manifest=msgspec.Raw(data), key=key_id(self.public), signature=signature)
        return Release(manifest, envelope.encode(), release_digest(data))


class TrustedKeys:
    """The public keys whose releases are taken. Raises ValueError on what is no key."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = {key_id(text): Ed25519PublicKey.from_public_bytes(public_bytes(text)) for text in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def open(self, message: bytes) -> Release:
        """The release in a message. Raises ReleaseRefused for what is not signed by one of the keys, or not usable."""
        envelope = _envelope(message)
        key = self._keys.get(envelope.key)
        if key is None:
            raise ReleaseRefused(
                f"it is signed by the key {envelope.key[:40]!r}, which models.trusted_keys does not have."
            )
        data = bytes(envelope.manifest)
        try:
            key.verify(base64.b64decode(envelope.signature, validate=True), _CONTEXT + data)
        except (InvalidSignature, ValueError) as error:
            raise ReleaseRefused("its signature is wrong: it was changed on the way, or is forged.") from error
        try:
            manifest = decode_manifest(data)
        except ValueError as error:
            raise ReleaseRefused(f"{error}.") from error
        return Release(manifest, message, release_digest(data))


def _envelope(message: bytes) -> Envelope:
    if len(message) > MOST_ENVELOPE_BYTES:
        raise ReleaseRefused(f"its message has {len(message)} bytes, and {MOST_ENVELOPE_BYTES} are allowed.")
    try:
        return msgspec.json.decode(message, type=Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReleaseRefused(f"its message is no signed release ({error}).") from error


def release_digest(manifest: bytes) -> str:
    """What tells releases apart: the SHA-256 of the signed bytes in hex."""
    return hashlib.sha256(manifest).hexdigest()


def key_id(public: str) -> str:
    """The short name of a public key: the first 16 hex digits of its SHA-256. Raises ValueError."""
    return hashlib.sha256(public_bytes(public)).hexdigest()[:16]


def public_bytes(text: str) -> bytes:
    """The 32 bytes of a public key. Raises ValueError where it is none."""
    try:
        data = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:  # binascii's own among them
        data = b""
    if not text.startswith(_PREFIX) or len(data) != _KEY_BYTES:
        raise ValueError(f"{text[:80]!r} is no public key: it is ed25519: and 32 bytes in base64")
    return data
