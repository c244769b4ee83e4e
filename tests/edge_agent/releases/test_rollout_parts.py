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
from edge_agent.releases.judging import JudgingSettings, Marks
from edge_agent.releases.promise import promised_ratio, released_f1
from edge_agent.releases.rollout import CameraRollout
from edge_agent.releases.rollout_files import Kept, RolloutFiles
from edge_agent.releases.rollouts import Rollouts
from edge_agent.releases.slot import ModelSlot, Staged
from edge_agent.releases.unproven import Unproven
from edge_agent.settings import AgentSettings
from pipeline.alerts import ModelAlert
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey
from pipeline.policies.comparison import Comparison, FrameScore
from pipeline.policies.drift import Drift, DriftSettings
from pipeline.policies.evidence import Evidence, Looks, RolloutSettings
from pipeline.releases.manifest import Kind, Manifest
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
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


MARKS = Marks(publish_score=0.4, sure_score=0.5, room_ms=100.0)


def released(version: str, kind: Kind = "camera") -> Staged:
    named = Named("own", version)
    return Staged(named, manifest_of(version.encode(), "own", version, kind=kind), release=version)


def rollout(*promoted: Staged, look_s: float = 0.01, settings: JudgingSettings | None = None) -> CameraRollout:
    """A camera's rollout after some models were promoted."""
    made = CameraRollout(ModelSlot("gate", FIRST), unproven(look_s), settings or JudgingSettings(), MARKS)
    for staged in promoted:
        made.slot.offer(staged)
        made.slot.promote()
    return made


def judged(candidate_f1: float, count: int = 50) -> Evidence:
    """What is known of a candidate that is as good as the current model."""
    evidence, alike = Evidence(), FrameScore(candidate_f1, missed_all=False, brier=None)
    for _ in range(count):
        evidence = evidence.compared(Comparison(alike, alike, 1), RolloutSettings())
    return evidence


def test_a_general_model_behind_a_cameras_own_changes_nothing_of_what_its_own_is_held_to() -> None:
    made = rollout(released("1"))
    made.drift = Drift(0.9).add(0.85, 0.8, DriftSettings())
    made.wants_lessons = True
    made.slot.offer(released("2", "general"))
    made.evidence = judged(0.4)
    made.slot.promote()
    assert made.drift is not None
    assert (made.drift.released_f1, made.drift.audits) == (0.9, 1)
    assert made.drift.pairs == 0  # those were with another general model
    assert made.wants_lessons


def test_a_model_that_is_gone_back_to_is_not_held_to_what_its_successor_has_shown() -> None:
    made = rollout(released("1"), released("2"))
    made.drift = Drift(0.9).add(0.1, 0.8, DriftSettings())
    made.slot.rollback("it is worse")
    assert made.watching
    assert made.drift is None


def test_a_promotion_that_is_ordered_during_a_look_comes_after_it() -> None:
    async def main() -> None:
        made = rollout(look_s=0.3)
        candidate = released("1")
        made.slot.offer(candidate)
        made.command("promote")
        looking = asyncio.create_task(made.unproven.look(candidate, look, 1.0))
        await asyncio.sleep(0.1)
        assert "as soon as" in made.command("promote")
        made.check()
        assert made.slot.current is FIRST
        await looking
        made.check()
        assert made.slot.current is candidate

    run_virtual(main())


def test_a_promotion_that_was_ordered_does_not_outlive_a_pause_or_its_candidate() -> None:
    async def main() -> None:
        made = rollout(look_s=0.3)
        candidate = released("1")
        for then in ("pause", "offer"):
            made.slot.offer(candidate)
            made.command("promote")
            looking = asyncio.create_task(made.unproven.look(candidate, look, 1.0))
            await asyncio.sleep(0.1)
            made.command("promote")
            if then == "pause":
                made.command("pause")
            else:
                made.slot.offer(released("2"))
            await looking
            made.check()
            assert made.slot.current is FIRST
            made.slot.withdraw("the next one")
            candidate = released("3")

    run_virtual(main())


def test_after_a_power_cut_in_mid_switch_the_model_in_use_is_told_of() -> None:
    before = rollout()
    before.slot.offer(released("1"))
    kept = before.kept()  # what follows is not written any more
    before.slot.promote()
    after = rollout()
    after.slot.restore(None, before.slot.current, None, None)
    after.recall(kept)
    after.begin()
    assert after.stage == "full"
    assert "own@1" in after.reason


def test_what_a_canary_has_answered_is_not_forgotten_by_a_restart(tmp_path: Path) -> None:
    class Deaf:
        def retain(self, outgoing: Outgoing) -> None: ...

        def alert(self, alert: ModelAlert) -> None: ...

    async def main() -> None:
        made = rollout()
        settings = AgentSettings("a1", (), state_dir=tmp_path)
        rollouts = Rollouts(settings, [made], MemoryTransport(MemoryHub()), Deaf())
        candidate = released("1")
        made.slot.offer(candidate)
        await rollouts.save()
        for staged in (FIRST, FIRST, candidate):
            made.answered(staged)
        await rollouts.save()
        kept = RolloutFiles(tmp_path / "rollouts").read("gate")
        assert kept is not None
        assert kept.evidence is not None
        assert (kept.evidence.frames, kept.evidence.served) == (3, 1)

    asyncio.run(main())


def test_a_candidate_that_stays_undecided_gives_way_to_one_that_waits() -> None:
    made = rollout(settings=JudgingSettings(gate=RolloutSettings(most_comparisons=50, least_with_objects=1000)))
    general = released("2", "general")
    made.slot.offer(released("1"))
    made.slot.offer(Staged(Named("another"), general.manifest, general.release))
    made.evidence = judged(0.9)
    made.judge()
    assert made.slot.candidate is not None
    assert made.slot.candidate.release == "2"
    assert made.evidence.comparisons == 0
    assert made.stage == "shadow"


@pytest.mark.parametrize(
    "damage", [(b'"late"', b'"latest"'), (b'"logs":[', b'"logs":[0.5,'), (b'"logs":[', b'"logs":[1e9,')]
)
def test_evidence_of_another_version_is_not_gone_on_with(tmp_path: Path, damage: tuple[bytes, bytes]) -> None:
    files = RolloutFiles(tmp_path)
    files.write(Kept("gate", "shadow", "2026-03-01T12:00:00.000Z", candidate="own@1", evidence=judged(0.9)))
    assert files.read("gate") is not None
    path = tmp_path / "gate.json"
    text = path.read_bytes()
    assert damage[0] in text
    path.write_bytes(text.replace(*damage))
    assert files.read("gate") is None
