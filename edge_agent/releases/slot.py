"""Which model looks at a camera's frames: the general one, one of its own, and one that is being proven."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.detectors.base import Detector
from pipeline.releases.manifest import Manifest

MOST_TAKEN_BACK, MOST_WAITING = 64, 4


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A loaded, proven and warm model. ``manifest`` and ``release``, the signed release's digest, are None and empty
    of the model that the agent was started with.
    """

    detector: Detector
    manifest: Manifest | None = None
    release: str = ""

    @property
    def name(self) -> str:
        return self.detector.name

    @property
    def version(self) -> str:
        return self.detector.version

    @property
    def title(self) -> str:
        """The model as name@version."""
        return f"{self.name}@{self.version}"

    @property
    def general(self) -> bool:
        """Whether it is for any scene, not for one camera's."""
        return self.manifest is None or self.manifest.kind == "general"


class SlotEventKind(StrEnum):
    """What happened in a slot."""

    OFFERED = "offered"
    PROMOTED = "promoted"
    WITHDRAWN = "withdrawn"
    ROLLED_BACK = "rolled_back"
    FELL_BACK = "fell_back"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SlotEvent:
    """Something that happened, with the model (name@version) that it happened to and why, in a sentence."""

    kind: SlotEventKind
    model: str
    reason: str = ""


class ModelSlot:
    """The models of one camera. On the event loop alone, and read once per frame: a change is between two frames.

    ``current`` looks at frames, ``general`` stands behind it, ``previous`` is what it replaced, kept loaded. A
    ``candidate`` is to be proven first; releases of other names wait for their turn. What was taken back is not taken
    again.
    """

    def __init__(self, camera: str, general: Staged, objects: frozenset[str] = frozenset()) -> None:
        self.camera = camera
        self._objects = objects
        self._built_in = general
        self._general = self._current = general
        self._previous: Staged | None = None
        self._candidate: Staged | None = None
        self._waiting: dict[str, Staged] = {}
        self._taken_back: deque[str] = deque(maxlen=MOST_TAKEN_BACK)
        self._listeners: list[Callable[[SlotEvent], None]] = []

    @property
    def general(self) -> Staged:
        return self._general

    @property
    def current(self) -> Staged:
        return self._current

    @property
    def previous(self) -> Staged | None:
        return self._previous

    @property
    def candidate(self) -> Staged | None:
        return self._candidate

    @property
    def waiting(self) -> tuple[Staged, ...]:
        """The models that are to be candidates afterwards, the next one first."""
        return tuple(self._waiting.values())

    @property
    def replaced(self) -> Staged:
        """The model that the candidate is to replace, and is to be compared with."""
        candidate = self._candidate
        return self._general if candidate is not None and candidate.general else self._current

    @property
    def taken_back(self) -> tuple[str, ...]:
        """The digests of releases that were taken back here, the oldest first."""
        return tuple(self._taken_back)

    @property
    def releases(self) -> frozenset[str]:
        """The digests of the releases that are in use, kept ready, or to be proven."""
        held = (self._general, self._current, self._previous, self._candidate, *self._waiting.values())
        return frozenset(one.release for one in held if one is not None and one.release)

    def listen(self, listener: Callable[[SlotEvent], None]) -> None:
        """Have every later event told; a listener returns at once and does not raise."""
        self._listeners.append(listener)

    def serving(self, *, use_candidate: bool = False) -> Staged:
        """The model for a frame; the candidate where the frame is of its share.

        A general candidate answers no frame of a camera that has a model of its own: it would not even replace it.
        """
        candidate = self._candidate
        if use_candidate and candidate is not None and self.replaced is self._current:
            return candidate
        return self._current

    def offer(self, staged: Staged) -> str:
        """Take a model as the candidate, in place of an earlier one of its name; behind one of another name it waits.
        Why it is not taken, in a sentence, or empty.
        """
        if staged.release in self._taken_back:
            return self.refuse(staged.title, f"{staged.title} was taken back here before; release it as a new version.")
        if staged.release and staged.release in self.releases:
            return ""
        if fault := self.misfit(staged):
            return self.refuse(staged.title, fault)
        if self._candidate is None or self._candidate.name == staged.name:
            self._begin(staged)
        else:
            self._wait(staged)
        return ""

    def give_way(self) -> None:
        """Have the candidate wait for those that wait. Without any nothing happens."""
        if self._candidate is not None and self._waiting:
            candidate, self._candidate = self._candidate, None
            self._wait(candidate)
            self._go_on()

    def misfit(self, staged: Staged) -> str:
        """Why a model's labels do not suit this camera, in a sentence; empty where they do."""
        return label_fault(staged, self._built_in, self._objects)

    def refuse(self, model: str, reason: str) -> str:
        """Note that a release came to nothing here; the reason."""
        for listener in self._listeners:
            listener(SlotEvent(SlotEventKind.REFUSED, model, reason))
        return reason

    def promote(self) -> None:
        """Put the candidate in the place of what it replaces, which is kept ready. Without one nothing happens."""
        candidate = self._candidate
        if candidate is None:
            return
        before, self._candidate = self.replaced, None
        if candidate.general:
            self._general = candidate
        if before is self._current:
            self._current, self._previous = candidate, before
        elif before is self._previous:
            self._previous = candidate  # the general model that was replaced is not gone back to
        self._tell(SlotEventKind.PROMOTED, candidate)
        self._go_on()

    def withdraw(self, reason: str) -> None:
        """Give the candidate up for good. Without one nothing happens."""
        candidate, self._candidate = self._candidate, None
        if candidate is not None:
            self._never_again(candidate)
            self._tell(SlotEventKind.WITHDRAWN, candidate, reason)
            self._go_on()

    def rollback(self, reason: str) -> None:
        """Give the current model up for good, for the one before it, or the general one."""
        self._go_back(self._previous or self._general, SlotEventKind.ROLLED_BACK, reason)

    def fall_back(self, reason: str) -> None:
        """Give the current model up for good, for the general one, at once."""
        self._go_back(self._general, SlotEventKind.FELL_BACK, reason)

    def take_back(self, sha256: str, reason: str) -> None:
        """Give up whatever here is of a file, by whoever released it: its release was revoked, or it has failed."""
        for name, staged in list(self._waiting.items()):
            if _is(staged, sha256):
                self._never_again(self._waiting.pop(name))
        if _is(self._candidate, sha256):
            self.withdraw(reason)
        if _is(self._previous, sha256):
            self._previous = None
        if _is(self._current, sha256):
            self.rollback(reason)
        elif _is(self._general, sha256):  # behind a model of the camera's own
            gone, self._general = self._general, self._built_in
            self._never_again(gone)
            self._tell(SlotEventKind.ROLLED_BACK, gone, reason)

    def restore(
        self,
        general: Staged | None,
        current: Staged | None,
        previous: Staged | None,
        candidate: Staged | None,
        taken_back: tuple[str, ...] = (),
    ) -> None:
        """Go on from what was in use before a restart, ahead of the first frame; None is what could not be kept."""
        self._general = general or self._built_in
        self._current = current or previous or self._general
        self._previous = previous if self._current is not previous else None
        self._candidate = candidate
        self._taken_back.extend(taken_back[-MOST_TAKEN_BACK:])

    def _begin(self, staged: Staged) -> None:
        self._candidate = staged
        self._tell(SlotEventKind.OFFERED, staged)

    def _wait(self, staged: Staged) -> None:
        """Let a model wait; of too many the first gives way, and comes again when its release is heard again."""
        self._waiting[staged.name] = staged
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _go_on(self) -> None:
        if self._candidate is None and self._waiting:
            self._begin(self._waiting.pop(next(iter(self._waiting))))

    def _go_back(self, to: Staged, kind: SlotEventKind, reason: str) -> None:
        gone = self._current
        if to is gone:  # the general model itself is given up
            to = self._previous or self._built_in
        if to is gone:
            return
        if self._general is gone:
            self._general = to if to.general else self._built_in
        self._current, self._previous = to, None
        self._never_again(gone)
        self._tell(kind, gone, reason)

    def _never_again(self, gone: Staged) -> None:
        if gone.release:
            self._taken_back.append(gone.release)

    def _tell(self, kind: SlotEventKind, staged: Staged, reason: str = "") -> None:
        for listener in self._listeners:
            listener(SlotEvent(kind, staged.title, reason))


def label_fault(staged: Staged, general: Staged, objects: frozenset[str]) -> str:
    """Why a model's labels cannot go on where the general model's left off, in a sentence; empty where they can.

    Tracks live on across models, and the larger model's labels are compared with them as they are.
    """
    have, known = frozenset(staged.detector.labels), frozenset(general.detector.labels)
    if objects and (missing := objects - have):
        return f"{staged.title} does not know the camera's objects {_some(missing)}: release one that does."
    if not objects and staged.general and (missing := known - have):
        return f"{staged.title} does not know {_some(missing)}, as {general.title} does: release one that does."
    if not objects and not staged.general and (strange := have - known):
        return f"{staged.title} knows {_some(strange)}, which {general.title} does not: use its labels."
    return ""


def _some(labels: frozenset[str]) -> str:
    return ", ".join(sorted(labels)[:5]) + (", ..." if len(labels) > 5 else "")


def _is(staged: Staged | None, sha256: str) -> bool:
    return staged is not None and staged.manifest is not None and staged.manifest.entry.sha256 == sha256
