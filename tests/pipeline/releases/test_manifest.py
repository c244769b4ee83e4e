from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.releases.manifest import (
    Audience,
    Manifest,
    decode_manifest,
    manifest_fault,
    next_sequence,
    revocation,
)
from tests.support.releases import LABELS, NOON, manifest_of

SOUND = manifest_of(b"x" * 100_000)


def test_a_manifest_comes_back_as_it_went() -> None:
    assert decode_manifest(SOUND.encode()) == SOUND
    assert (SOUND.title, SOUND.chunks) == ("own@1", 4)


def test_equal_manifests_have_equal_bytes_in_whatever_order_their_figures_came() -> None:
    one, other = (msgspec.structs.replace(SOUND, figures=dict(pairs)) for pairs in ((("a", 1.0), ("b", 2.0)),) * 2)
    turned = msgspec.structs.replace(SOUND, figures={"b": 2.0, "a": 1.0})
    assert one.encode() == other.encode() == turned.encode()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "../up"}, "cannot be part of a topic"),
        ({"name": "a/b"}, "cannot be part of a topic"),
        ({"sha256": "../../etc/passwd"}, "not a SHA-256"),
        ({"sha256": "A" * 64}, "not a SHA-256"),
        ({"file": "../../etc/cron.d/own"}, "not a name alone"),
        ({"file": "/own.onnx"}, "not a name alone"),
        ({"file": ".."}, "not a name alone"),
        ({"file": "c:\\own.onnx"}, "not a name alone"),
        ({"labels": "../coco80.txt"}, "not a name alone"),
        ({"version": ""}, "printable"),
        ({"version": "1\n2"}, "printable"),
    ],
)
def test_a_contract_that_would_leave_its_place_is_refused(entry: dict[str, str], words: str) -> None:
    changed = msgspec.structs.replace(SOUND, entry=msgspec.structs.replace(SOUND.entry, **entry))
    with pytest.raises(ValueError, match=words):
        decode_manifest(changed.encode())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sequence": 0}, "sequence"),
        ({"size_bytes": 0}, "size of 0 bytes"),
        ({"chunk_bytes": 1}, "chunks of 1 bytes"),
        ({"chunk_bytes": 10**9}, "chunks of"),
        ({"input_size": (0, 64)}, "input size"),
        ({"input_size": (64, 10**6)}, "input size"),
        ({"labels": LABELS[:2]}, "labels"),
        ({"labels": ("a", "a", "b")}, "labels"),
        ({"labels": ("a", "b", "c\nd")}, "label"),
        ({"urls": ("file:///etc/passwd",)}, "http"),
        ({"urls": ("https://",)}, "http"),
        ({"urls": ("http://[",)}, "http"),
        ({"urls": ("http://a/",) * 9}, "urls"),
        ({"revoked": "x" * 5000}, "reason"),
    ],
)
def test_values_that_cannot_be_used_are_refused(changes: dict[str, object], words: str) -> None:
    assert words in manifest_fault(msgspec.structs.replace(SOUND, **changes))


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 5000, b"\xff", b"null", SOUND.encode()[:-1], b"x" * 200_000])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="its manifest"):
        decode_manifest(data)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown field"):
        decode_manifest(SOUND.encode()[:-1] + b',"more":1}')


def test_a_release_that_an_edge_would_refuse_is_not_made() -> None:
    with pytest.raises(ValueError, match="cannot be made: its 1 labels"):
        manifest_of(b"x", labels=("person",))


@given(last=st.integers(0, 2**60), seconds=st.integers(0, 4 * 10**9))
def test_sequences_rise_whatever_the_clock_says(last: int, seconds: int) -> None:
    assert next_sequence(datetime.fromtimestamp(seconds, UTC), last) > last


def test_a_revocation_comes_after_what_it_revokes_even_on_a_clock_that_went_back() -> None:
    gone: Manifest = revocation(SOUND, "it saw ghosts", NOON.replace(year=2020))
    assert (gone.revoked, gone.entry) == ("it saw ghosts", SOUND.entry)
    assert gone.sequence > SOUND.sequence


@pytest.mark.parametrize(
    ("audience", "held"),
    [
        (Audience(), True),
        (Audience(cameras=("yard", "gate")), True),
        (Audience(cameras=("gate",)), False),
        (Audience(groups=("outdoor",)), True),
        (Audience(groups=("indoor",)), False),
        (Audience(site="north"), True),
        (Audience(site="south"), False),
        (Audience(cameras=("yard",), site="south"), False),
        (Audience(cameras=("yard",), groups=("outdoor",), site="north"), True),
    ],
)
def test_a_camera_must_meet_all_that_an_audience_asks(audience: Audience, held: bool) -> None:
    assert audience.holds("yard", "outdoor", "north") is held
