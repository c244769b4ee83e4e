"""The parts of a rollout: audits, unproven looks, promises, and what is kept on disk."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from edge_agent.region_of_interest import bind
from edge_agent.releases.aside import Aside
from edge_agent.releases.audits import MOST_OPEN, Audit, Audits, Sight
from edge_agent.releases.promise import promised_ratio, released_f1
from edge_agent.releases.rollout_files import Kept, RolloutFiles
from edge_agent.releases.slot import Staged
from edge_agent.releases.unproven import Unproven
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey
from pipeline.policies.drift import Drift, DriftSettings
from pipeline.policies.evidence import Evidence, Looks, RolloutSettings
from pipeline.releases.manifest import Manifest
from pipeline.timing import LoopClock, run_virtual
from tests.support.detectors import VirtualRunner, grey_picture
from tests.support.releases import Named, manifest_of

T = TypeVar("T")
FIRST, SECOND = Staged(Named("first")), Staged(Named("second"))


def audit(number: int, *, asked: bool = True) -> Audit:
    image = grey_picture(100)
    frame = Frame(FrameKey("gate", 7, number), image, 0.0, None)
    return Audit(frame.key, frame, bind((), (), frame.size), asked)


def look() -> Detections:
    return Detections.none()


def test_of_too_many_audits_the_oldest_gives_way() -> None:
    audits = Audits()
    for number in range(MOST_OPEN + 1):
        audits.add(audit(number))
    assert len(audits) == MOST_OPEN
    assert audit(0).key not in audits
    assert audits.heard(audit(0).key, look()) is None


def test_an_answer_counts_once_and_the_newest_frame_is_looked_at_first() -> None:
    audits = Audits()
    for number in (1, 2):
        audits.add(audit(number))
    found = audits.unseen((FIRST, SECOND))
    assert found is not None
    assert (found[0].key.seq, found[1]) == (2, FIRST)
    found[0].sights[FIRST] = Sight(FIRST, look(), 1.0)
    assert audits.unseen((FIRST,)) is not None
    assert audits.heard(audit(2).key, look()) is found[0]
    assert audits.heard(audit(2).key, look()) is None
    audits.clear()
    assert audits.unseen((FIRST,)) is None


def unproven(run_s: float, hang_s: float = 1.0) -> Unproven:
    return Unproven(VirtualRunner(lambda: run_s), LoopClock(), hang_s)


def test_an_unproven_look_that_is_in_time_is_taken_with_what_it_took() -> None:
    async def main() -> Sight | None:
        return await unproven(0.02).look(FIRST, look, 0.1)

    sight = run_virtual(main())
    assert sight is not None
    assert sight.took_ms == pytest.approx(20.0)


def test_a_look_that_takes_too_long_gives_nothing_and_keeps_others_away_until_it_ends() -> None:
    async def main() -> None:
        one = unproven(0.3)
        assert await one.look(FIRST, look, 0.1) is None
        assert one.busy
        assert await one.look(FIRST, look, 0.1) is None
        assert one.fault() == ""
        await asyncio.sleep(0.3)
        assert not one.busy
        assert await one.look(FIRST, look, 0.5) is not None

    run_virtual(main())


def test_a_look_that_hangs_is_a_fault_and_its_successor_starts_clean() -> None:
    async def main() -> None:
        one = unproven(1e6)
        assert await one.look(FIRST, look, 5.0) is None
        assert "hangs" in one.fault()
        one.begin()
        assert one.fault() == ""
        assert not one.busy

    run_virtual(main())


def test_a_look_that_raises_after_nobody_waits_for_it_any_more_is_a_fault_all_the_same() -> None:
    class Late:
        async def run(self, call: Callable[[], T]) -> T:
            await asyncio.sleep(0.2)
            return call()

    def broken() -> Detections:
        raise RuntimeError("no")

    async def main() -> None:
        one = Unproven(Late(), LoopClock(), 1.0)
        assert await one.look(FIRST, broken, 0.1) is None
        await asyncio.sleep(0.2)
        assert one.fault() == "a look of it raised RuntimeError: no"

    run_virtual(main())


def test_a_look_with_suspect_rows_is_a_fault() -> None:
    class Suspect(Named):
        suspect_rows = 0

    detector = Suspect()

    def suspect() -> Detections:
        detector.suspect_rows += 3
        return Detections.none()

    async def main() -> str:
        one = unproven(0.0)
        assert await one.look(Staged(detector), suspect, 1.0) is None
        return one.fault()

    assert "no detections" in run_virtual(main())


async def test_a_call_aside_runs_on_a_thread_that_nobody_waits_for_and_brings_its_fault_back() -> None:
    thread = await Aside().run(threading.current_thread)
    assert thread.daemon
    with pytest.raises(ZeroDivisionError):
        await Aside().run(lambda: 1 / 0)


def test_a_promise_is_a_multiple_of_the_current_model_by_what_both_took_beside_the_general_one() -> None:
    quick = with_figures(median_ms=1.0, general_median_ms=10.0)
    middling = with_figures(median_ms=5.0, general_median_ms=10.0)
    assert promised_ratio(quick, None) == pytest.approx(0.1)
    assert promised_ratio(quick, middling) == pytest.approx(0.2)
    assert promised_ratio(middling, quick) == 1.0
    assert promised_ratio(manifest_of(b"own"), None) == promised_ratio(None, None) == 1.0
    assert released_f1(with_figures(f1=0.93)) == 0.93
    assert 0.0 < released_f1(None) < 1.0


def with_figures(**figures: float) -> Manifest:
    return msgspec.structs.replace(manifest_of(b"own"), figures=figures)


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    looks = Looks(1.0, 2.0, 180.0, candidate_empty=False, current_empty=False)
    evidence = Evidence().looked(looks, 1.0, RolloutSettings()).answered(by_candidate=True)
    drift = Drift(0.9).add(0.8, 0.7, DriftSettings())
    kept = Kept(
        camera="gate",
        stage="canary",
        since="2026-03-01T12:00:00.000Z",
        paused=True,
        candidate="digest",
        evidence=evidence,
        watched="own",
        drift=drift,
        learn_again=True,
    )
    files = RolloutFiles(tmp_path / "rollouts")
    assert files.read("gate") is None
    files.write(kept)
    assert files.read("gate") == kept
    assert files.read("yard") is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"camera": "yard", "stage": "none", "since": ""}', b"\xff\xfe"])
def test_a_file_that_is_of_no_use_is_one_warning_and_a_fresh_start(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gate.json").write_bytes(data)
    assert RolloutFiles(tmp_path).read("gate") is None
    assert len(caplog.records) <= 1


def test_a_folder_that_cannot_be_written_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    files = RolloutFiles(tmp_path / "file")
    for _ in range(3):
        files.write(Kept("gate", "none", "2026-03-01T12:00:00.000Z"))
    assert len(caplog.records) == 1
