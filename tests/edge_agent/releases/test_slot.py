from hypothesis import given
from hypothesis import strategies as st

from edge_agent.releases.slot import ModelSlot, SlotEvent, Staged
from pipeline.releases.manifest import Kind
from tests.support.releases import Named, manifest_of

BUILT_IN = Staged(Named())


def own(version: str = "1", kind: Kind = "camera", labels: tuple[str, ...] = ("person", "car", "dog")) -> Staged:
    name = "own" if kind == "camera" else "general"
    manifest = manifest_of(version.encode(), name, version, kind=kind)
    return Staged(Named(name, version, labels), manifest, release=f"{name}-{version}")


def slot(*offered: Staged, objects: frozenset[str] = frozenset()) -> ModelSlot:
    """A slot in which some models have been promoted, one after the other."""
    made = ModelSlot("yard", BUILT_IN, objects)
    for staged in offered:
        assert made.offer(staged) == ""
        made.promote()
    return made


def test_the_general_model_serves_until_there_is_another() -> None:
    made = slot()
    assert made.serving() is made.serving(use_candidate=True) is made.general is BUILT_IN
    assert (made.previous, made.candidate, made.releases) == (None, None, frozenset())


def test_a_candidate_answers_the_frames_of_its_share_alone() -> None:
    made = slot()
    candidate = own()
    made.offer(candidate)
    assert made.serving() is BUILT_IN
    assert made.serving(use_candidate=True) is candidate


def test_a_promoted_model_serves_and_the_one_before_it_is_kept_ready() -> None:
    first, second = own("1"), own("2")
    made = slot(first, second)
    assert (made.current, made.previous, made.general, made.candidate) == (second, first, BUILT_IN, None)


def test_a_rollback_returns_to_the_one_before_and_then_to_the_general_model() -> None:
    first, second = own("1"), own("2")
    made = slot(first, second)
    made.rollback("it is worse")
    assert (made.current, made.previous) == (first, None)
    made.rollback("so is this")
    assert made.current is BUILT_IN
    made.rollback("nothing is left")
    assert made.current is BUILT_IN


def test_a_fall_back_goes_to_the_general_model_at_once() -> None:
    made = slot(own("1"), own("2"))
    made.fall_back("the camera was turned")
    assert (made.current, made.previous) == (BUILT_IN, None)


def test_what_was_taken_back_is_not_taken_again_and_a_new_version_is() -> None:
    made = slot(own("1"))
    made.rollback("it is worse")
    assert "was taken back here before" in made.offer(own("1"))
    made.offer(own("2"))
    made.withdraw("it is worse too")
    assert "was taken back here before" in made.offer(own("2"))
    assert made.offer(own("3")) == ""


def test_a_model_that_is_in_use_is_not_proven_again() -> None:
    made = slot(own("1"))
    assert made.offer(own("1")) == ""
    assert made.candidate is None


def test_a_newer_candidate_takes_the_place_of_one_that_is_not_proven_yet() -> None:
    made = slot()
    made.offer(own("1"))
    made.offer(own("2"))
    assert made.candidate is not None
    assert made.candidate.version == "2"
    assert made.taken_back == ()


def test_a_new_general_model_goes_behind_a_model_of_the_cameras_own() -> None:
    mine, better = own("1"), own("2", "general")
    made = slot(mine)
    made.offer(better)
    assert made.replaced is BUILT_IN
    assert made.serving(use_candidate=True) is mine
    made.promote()
    assert (made.current, made.general, made.previous) == (mine, better, better)
    made.fall_back("the camera was turned")
    assert made.current is better


def test_a_new_general_model_serves_where_the_general_model_served() -> None:
    better = own("2", "general")
    made = slot()
    made.offer(better)
    assert made.serving(use_candidate=True) is better
    made.promote()
    assert made.current is made.general is better
    made.rollback("it is worse")
    assert made.current is made.general is BUILT_IN


def test_a_revoked_file_goes_wherever_it_is() -> None:
    first, second, better = own("1"), own("2"), own("3", "general")
    made = slot(first, second)
    made.take_back(first.manifest.entry.sha256 if first.manifest else "", "it is flawed")
    assert (made.current, made.previous) == (second, None)
    made.offer(better)
    made.promote()
    made.take_back(better.manifest.entry.sha256 if better.manifest else "", "it is flawed")
    assert (made.current, made.general) == (second, BUILT_IN)
    made.take_back(second.manifest.entry.sha256 if second.manifest else "", "it is flawed")
    assert made.current is BUILT_IN


def test_labels_that_would_break_tracks_are_refused() -> None:
    assert "does not know the camera's objects dog" in slot(objects=frozenset({"dog"})).offer(own(labels=("person",)))
    assert slot(objects=frozenset({"person"})).offer(own(labels=("person",))) == ""
    assert slot().offer(own(labels=("person",))) == ""
    assert "knows human, which general@1.0.0 does not" in slot().offer(own(labels=("human",)))
    assert "does not know dog, as general@1.0.0 does" in slot().offer(own("2", "general", ("person", "car")))
    assert slot().offer(own("2", "general", ("person", "car", "dog", "cat"))) == ""


def test_listeners_hear_what_happened_to_which_model_and_why() -> None:
    made, heard = slot(), list[SlotEvent]()
    made.listen(heard.append)
    made.offer(own("1"))
    made.promote()
    made.rollback("it is worse")
    made.offer(own("2"))
    made.withdraw("it is slow")
    assert [(event.kind.value, event.model, event.reason) for event in heard] == [
        ("offered", "own@1", ""),
        ("promoted", "own@1", ""),
        ("rolled_back", "own@1", "it is worse"),
        ("offered", "own@2", ""),
        ("withdrawn", "own@2", "it is slow"),
    ]


DEEDS = st.lists(st.sampled_from(["own", "general", "promote", "withdraw", "rollback", "fall_back", "revoke"]))


@given(DEEDS)
def test_whatever_happens_a_model_serves_that_was_not_taken_back(deeds: list[str]) -> None:
    made = ModelSlot("yard", BUILT_IN)
    for number, deed in enumerate(deeds):
        serving = made.current
        if deed in {"own", "general"}:
            made.offer(own(str(number), "camera" if deed == "own" else "general"))
        elif deed == "promote":
            made.promote()
        elif deed == "revoke":
            made.take_back(serving.manifest.entry.sha256 if serving.manifest else "none", "it is flawed")
        else:
            getattr(made, deed)("it is worse")
        held = (made.current, made.general, made.previous, made.candidate)
        assert not {one.release for one in held if one is not None} & set(made.taken_back)
        assert made.general.general
        assert made.previous is not made.current
        if deed in {"rollback", "fall_back"} and serving.release:
            assert made.current is not serving


def test_a_rollback_to_the_general_model_goes_to_the_newest_one() -> None:
    general = own("2", "general")
    made = slot(own("1"), general)
    made.rollback("it is worse")
    assert made.current is made.general is general
    newer = own("3", "general")
    assert made.offer(newer) == ""
    made.promote()
    assert made.current is newer


def test_a_release_of_another_name_waits_until_the_candidate_is_decided() -> None:
    made, told = slot(), list[SlotEvent]()
    mine, general, newest = own("1"), own("1", "general"), own("2", "general")
    made.listen(told.append)
    for staged in (mine, general, newest):
        assert made.offer(staged) == ""
    assert made.candidate is mine
    assert made.releases == {mine.release, newest.release}
    made.promote()
    assert (made.current, made.candidate) == (mine, newest)
    made.withdraw("it is worse")
    assert made.candidate is None
    assert [event.kind for event in told] == ["offered", "promoted", "offered", "withdrawn"]


def test_a_candidate_that_gives_way_is_proven_after_those_that_wait() -> None:
    made = slot()
    mine, general = own("1"), own("1", "general")
    made.offer(mine)
    made.give_way()
    assert made.candidate is mine
    made.offer(general)
    made.give_way()
    assert made.candidate is general
    made.promote()
    assert made.candidate is mine


def test_a_revoked_release_does_not_wait_any_more() -> None:
    made = slot()
    general = own("1", "general")
    made.offer(own("1"))
    made.offer(general)
    assert general.manifest is not None
    made.take_back(general.manifest.entry.sha256, "it was revoked")
    made.withdraw("it is worse")
    assert made.candidate is None
    assert general.release in made.taken_back
