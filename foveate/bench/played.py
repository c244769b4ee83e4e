"""What a system under comparison published, and its records: the same for the product and for every baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.bench.report_page.records import FrameRecord, Scores
from foveate.bench.streaming import Shown, State, newest_in_time, states
from foveate.bench.virtual import VirtualRun
from foveate.bench.virtual_parts import PUBLISH_OVERHEAD_BYTES, SOCKET_OVERHEAD
from foveate.models.scoring import Truth
from pipeline.geometry import BoxArray
from pipeline.metrics.matching import score_frame
from pipeline.results import Origin, Result

LOOSE_IOU = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A published state, how it came about, and whether the larger model had a part in it."""

    state: State
    origin: str
    cloud: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """A question: the frame that it is about, when it was sent, its bytes at the socket."""

    seq: int
    at_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What came of a playlist, on a clock that is 0 at the first frame. ``answers`` are in the order of publishing.

    ``uplink_bytes`` at the socket; ``edge_s`` and ``cloud_s`` are what the models took.
    """

    answers: tuple[Answer, ...]
    captured_s: Mapping[int, float]
    sent: tuple[Sent, ...]
    uplink_bytes: int
    edge_s: float
    cloud_s: float

    def without_carried(self) -> "Played":
        """As if what is published for an analysed frame were held until the next one."""
        return replace(self, answers=tuple(a for a in self.answers if a.origin != Origin.CARRIED.value))


def socket_bytes(payload_bytes: int) -> int:
    """What a question takes at the socket: its packet with MQTT's and TCP/IP's headers."""
    return round((payload_bytes + PUBLISH_OVERHEAD_BYTES) * (1 + SOCKET_OVERHEAD))


def of_product(run: VirtualRun, edge_look_s: float) -> Played:
    """A run of the product; a look of the small model takes ``edge_look_s``."""
    start_s = run.captured_s[0]
    captured_s = {seq: at_s - start_s for seq, at_s in run.captured_s.items()}
    results = [result for result in run.results if result.seq in captured_s]
    answers = [
        Answer(states([result], captured_s)[0], result.origin, result.models.cloud is not None) for result in results
    ]
    answers.sort(key=lambda answer: answer.state.published_s)
    looks = sum(result.origin != Origin.CARRIED.value for result in run.record.values())
    cloud_s = sum(result.timings_ms.cloud_infer or 0.0 for result in results) / 1000
    sent = tuple(_question(result, captured_s[result.seq]) for result in run.record.values() if result.bytes_up)
    return Played(tuple(answers), captured_s, sent, run.uplink_bytes, looks * edge_look_s, cloud_s)


def _question(result: Result, captured_s: float) -> Sent:
    spent = result.timings_ms
    before_ms = sum(part or 0.0 for part in (spent.wait, spent.gate, spent.edge, spent.encode))
    return Sent(result.seq, captured_s + before_ms / 1000, socket_bytes(result.bytes_up))


def records(played: Played, shown: Sequence[Shown], slo_s: float) -> list[FrameRecord]:
    """A record per frame that was shown."""
    published = [answer.state for answer in played.answers]
    due = newest_in_time(published, played.captured_s, len(shown), slo_s)
    strict = newest_in_time(published, played.captured_s, len(shown), 0.0)
    by_cloud = [answer.state for answer in played.answers if answer.cloud]
    fresh = newest_in_time(by_cloud, played.captured_s, len(shown), slo_s)
    first, last = dict[int, Answer](), dict[int, Answer]()
    for answer in played.answers:
        first.setdefault(answer.state.seq, answer)
        last[answer.state.seq] = answer
    questions = {question.seq: question for question in played.sent}
    out = []
    for seq, frame in enumerate(shown):
        at_s, begun, question, newest = played.captured_s[seq], first.get(seq), questions.get(seq), fresh[seq]
        out.append(
            FrameRecord(
                seq=seq,
                at_s=at_s,
                clip=frame.clip.name,
                origin=None if begun is None else begun.origin,
                latency_s=None if begun is None else begun.state.published_s - at_s,
                corrected_s=None if begun is None else last[seq].state.published_s - at_s,
                cloud=begun is not None and begun.cloud,
                stale_s=None if newest is None else at_s + slo_s - played.captured_s[newest.seq],
                sent_bytes=0 if question is None else question.size_bytes,
                sent_at_s=None if question is None else question.at_s,
                found=len(_boxes(due[seq], frame)),
                true=int((~frame.truth.ignored).sum()),
                scores=_scores(strict[seq], due[seq], frame),
            )
        )
    return out


def _boxes(state: State | None, frame: Shown) -> BoxArray:
    found = None if state is None else state.boxes.get(frame.clip.label)
    return frame.cloud[:0] if found is None else found


def _scores(strict: State | None, due: State | None, frame: Shown) -> Scores:
    def counts(state: State | None, truth: Truth | None, least_iou: float = 0.5) -> tuple[int, int, int]:
        reference, ignored = (frame.cloud, None) if truth is None else (truth.xyxy, truth.ignored)
        score = score_frame(_boxes(state, frame), reference, ignored, least_iou)
        return score.true_positives, score.false_positives, score.false_negatives

    return Scores(
        d0=counts(strict, frame.truth),
        slo=counts(due, frame.truth),
        slo_iou30=counts(due, frame.truth, LOOSE_IOU),
        d0_agreement=counts(strict, None),
        slo_agreement=counts(due, None),
    )
