"""What the simulator leaves out is what could not be decided otherwise."""

from hypothesis import given
from hypothesis import strategies as st

from foveate.simulation.agent_decisions import AgentDecisions, CameraDecisions
from foveate.simulation.scene import Look, SceneFrame
from pipeline.geometry import Size
from pipeline.policies.path import RoundTrip
from tests.support.workloads import frame, place, product


def decisions(**overrides: object) -> tuple[AgentDecisions, CameraDecisions]:
    agent = product(**overrides).agent
    return AgentDecisions(agent.uplink, {"c": 1.0}), CameraDecisions("node", "c", agent.cameras[0])


def look(number: int, at_s: float, *, quiet: bool = False) -> Look:
    scene = SceneFrame.of(frame(number, 0.0, places=() if quiet else (place(),)), Size(768, 576))
    return Look(number, scene, at_s, at_s + 0.18)


@given(st.lists(st.tuples(st.booleans(), st.floats(1, 400)), max_size=20), st.sampled_from([None, 20.0, 200.0]))
def test_a_quiet_frame_is_one_about_which_the_policy_says_that_nothing_is_uncertain(
    before: list[tuple[bool, float]], kbps: float | None
) -> None:
    agent, camera = decisions(uplink__uplink_kbps=kbps, cameras__offload__full_frame_s=8.0)
    now_s = 0.0
    for number, (missed, round_trip_ms) in enumerate(before):
        now_s = number / 5
        camera.decide(agent, look(number, now_s), now_s)
        agent.sent("c", 3000, 0, now_s)
        if missed:
            agent.missed(now_s)
        else:
            agent.answered(RoundTrip("mosaic", 3000, 0.0, round_trip_ms, 1.0, 10.0), now_s)
    quiet = look(99, now_s + 0.1, quiet=True)
    if camera.is_quiet(quiet.scene.frame, quiet.captured_s):
        decision = camera.decide(agent, quiet, now_s + 0.1)
        assert (decision.kind, decision.reason) == ("none", "nothing_uncertain")


def test_a_frame_with_a_place_is_never_quiet() -> None:
    _, camera = decisions()
    assert not camera.is_quiet(look(0, 0.0).scene.frame, 0.0)


def test_a_camera_that_sends_every_frame_has_no_quiet_one() -> None:
    _, camera = decisions(cameras__mode="cloud_only")
    assert not camera.is_quiet(look(0, 0.0, quiet=True).scene.frame, 0.0)
