import base64
import json
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.releases.signing import Envelope, ReleaseRefused, SigningKey, TrustedKeys, key_id, public_bytes
from tests.support.releases import KEY, released

RELEASE = released(b"model")
TRUSTED = TrustedKeys([KEY.public])


def test_what_a_trusted_key_has_signed_is_opened() -> None:
    opened = TRUSTED.open(RELEASE.envelope)
    assert opened == RELEASE


def test_the_message_can_be_read_with_any_json_tool() -> None:
    read = json.loads(RELEASE.envelope)
    assert read["manifest"]["entry"]["name"] == "own"
    assert read["key"] == key_id(KEY.public)


@given(st.integers(0, len(RELEASE.envelope) - 1), st.integers(1, 255))
def test_no_byte_of_a_message_can_be_changed(place: int, change: int) -> None:
    forged = bytearray(RELEASE.envelope)
    forged[place] ^= change
    try:
        opened = TRUSTED.open(bytes(forged))
    except ReleaseRefused:
        return
    assert opened.manifest == RELEASE.manifest  # as where a bit of base64 that carries nothing has changed


def test_another_key_is_not_trusted() -> None:
    with pytest.raises(ReleaseRefused, match=r"models\.trusted_keys does not have"):
        TRUSTED.open(released(b"model", key=SigningKey.new()).envelope)


def test_a_signature_under_a_trusted_keys_name_is_checked() -> None:
    stranger = msgspec.json.decode(released(b"model", key=SigningKey.new()).envelope, type=Envelope)
    with pytest.raises(ReleaseRefused, match="its signature is wrong"):
        TRUSTED.open(msgspec.structs.replace(stranger, key=key_id(KEY.public)).encode())


def test_what_the_key_signs_elsewhere_is_no_release() -> None:
    data = RELEASE.manifest.encode()
    signature = base64.b64encode(KEY._key.sign(data)).decode()
    envelope = Envelope(manifest=msgspec.Raw(data), key=key_id(KEY.public), signature=signature)
    with pytest.raises(ReleaseRefused, match="its signature is wrong"):
        TRUSTED.open(envelope.encode())


@pytest.mark.parametrize("message", [b"", b"{}", b"no", b"[" * 9999, b"\xff\xfe", b"x" * 10**6])
def test_what_is_no_release_is_refused_in_a_sentence(message: bytes) -> None:
    with pytest.raises(ReleaseRefused, match=r"its message .*\.$"):
        TRUSTED.open(message)


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "release.key"
    made = SigningKey.of_file(path)
    assert SigningKey.of_file(path).public == made.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_no_key_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "release.key"
    path.write_text("secret")
    with pytest.raises(ConfigError, match=r"release\.key holds no signing key"):
        SigningKey.of_file(path)
    assert path.read_text() == "secret"


def test_a_key_where_nothing_can_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        SigningKey.of_file(tmp_path / "file" / "release.key")


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "rsa:" + "A" * 44, "ed25519:" + "ü" * 44, "A" * 44])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no public key"):
        public_bytes(text)
