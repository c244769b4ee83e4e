"""The snapshot as Prometheus metrics."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from edge_agent.status.snapshot import AgentStatus, CameraStatus, Percentiles, TargetStatus
from pipeline.policies.restraint import Action
from pipeline.results import CameraState, DropReason, Origin

_CIRCUIT_STATES = ("closed", "open", "probing", "off")


def render_metrics(status: AgentStatus) -> bytes:
    """The snapshot, and this process's CPU time and memory, in the Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(status))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class SnapshotCollector(Collector):
    """The metrics of one snapshot. Known origins, reasons and states appear from the start, at zero."""

    def __init__(self, status: AgentStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        yield from _agent_metrics(self._status)
        yield from _worker_metrics(self._status)
        yield from _queue_metrics(self._status)
        yield from _target_metrics(self._status.targets)
        yield from _tier_metrics(self._status.cameras)
        yield from _frame_metrics(self._status.cameras)
        yield from _latency_metrics(self._status.cameras)
        yield from _camera_metrics(self._status.cameras)
        yield from _budget_metrics(self._status.cameras)
        yield from _learning_metrics(self._status.cameras)


def _agent_metrics(status: AgentStatus) -> Iterator[Metric]:
    info = GaugeMetricFamily("foveate_agent_info", "Always 1; the agent and its version.", labels=["agent", "version"])
    info.add_metric([status.agent, status.version], 1)
    yield info
    yield GaugeMetricFamily("foveate_ready", "1 when the agent is ready to answer.", value=status.ready)
    yield GaugeMetricFamily("foveate_broker_connected", "1 while MQTT is connected.", value=status.broker_connected)
    circuit = GaugeMetricFamily("foveate_cloud_circuit", "1 for the cloud circuit's present state.", labels=["state"])
    for state in _with_known(_CIRCUIT_STATES, [status.cloud]):
        circuit.add_metric([state], state == status.cloud)
    yield circuit
    events = CounterMetricFamily("foveate_events", "Events that are not the end of a frame.", labels=["kind"])
    for kind, count in status.counters.items():
        events.add_metric([kind], count)
    yield events


def _worker_metrics(status: AgentStatus) -> Iterator[Metric]:
    labels = ["worker", "tier"]
    online = GaugeMetricFamily("foveate_worker_online", "1 while the worker is online.", labels=labels)
    queue = GaugeMetricFamily("foveate_worker_queue_length", "Requests waiting at the worker.", labels=labels)
    infer = GaugeMetricFamily("foveate_worker_infer_p95_seconds", "P95 of the worker's model runs.", labels=labels)
    for worker in status.workers:
        values = [worker.worker, worker.tier]
        online.add_metric(values, worker.online)
        queue.add_metric(values, worker.queue_length)
        if worker.infer_ms_p95 is not None:
            infer.add_metric(values, worker.infer_ms_p95 / 1000)
    yield from (online, queue, infer)


def _queue_metrics(status: AgentStatus) -> Iterator[Metric]:
    labels = ["queue"]
    length = GaugeMetricFamily("foveate_queue_length", "What waits in a queue now.", labels=labels)
    mean = GaugeMetricFamily("foveate_queue_mean_length", "Mean length over the last half minute.", labels=labels)
    rate = GaugeMetricFamily("foveate_queue_arrivals_per_second", "Arrivals at a queue.", labels=labels)
    wait = GaugeMetricFamily("foveate_queue_wait_seconds", "Mean wait of what left a queue.", labels=labels)
    for queue in status.queues:
        length.add_metric([queue.name], queue.length)
        mean.add_metric([queue.name], queue.mean_length)
        rate.add_metric([queue.name], queue.arrivals_per_s)
        if queue.wait_ms is not None:
            wait.add_metric([queue.name], queue.wait_ms / 1000)
    yield from (length, mean, rate, wait)


def _target_metrics(targets: list[TargetStatus]) -> Iterator[Metric]:
    labels = ["target", "tier"]
    asking = GaugeMetricFamily("foveate_target_open", "1 while requests are sent to the target.", labels=labels)
    workers = GaugeMetricFamily("foveate_target_workers", "Workers online at the target.", labels=labels)
    in_flight = GaugeMetricFamily("foveate_target_in_flight", "Requests under way to the target.", labels=labels)
    trip = GaugeMetricFamily("foveate_target_round_trip_seconds", "Expected for a usual request.", labels=labels)
    ends = CounterMetricFamily("foveate_target_requests", "Requests, by what came of them.", labels=[*labels, "what"])
    sent = CounterMetricFamily("foveate_target_bytes", "Bytes of requests sent to the target.", labels=labels)
    for target in targets:
        values = [target.target, target.tier]
        asking.add_metric(values, not target.closed)
        workers.add_metric(values, target.workers)
        in_flight.add_metric(values, target.in_flight)
        if target.round_trip_ms is not None:
            trip.add_metric(values, target.round_trip_ms / 1000)
        for what in ("asked", "answered", "refused", "moved"):
            ends.add_metric([*values, what], getattr(target, what))
        sent.add_metric(values, target.bytes_up)
    yield from (asking, workers, in_flight, trip, ends, sent)


def _tier_metrics(cameras: list[CameraStatus]) -> Iterator[Metric]:
    labels = ["camera", "tier"]
    answers = CounterMetricFamily("foveate_answers", "Answers by the tier that gave them.", labels=labels)
    sent = CounterMetricFamily("foveate_picture_bytes", "Pictures sent to workers of a tier.", labels=labels)
    leaving = CounterMetricFamily("foveate_bytes_leaving_site", "Pictures sent off the site.", labels=["camera"])
    for camera in cameras:
        if (tiers := camera.tiers) is None:
            continue
        for tier, count in tiers.answers.items():
            answers.add_metric([camera.name, tier], count)
        for tier, size_bytes in tiers.sent_bytes.items():
            sent.add_metric([camera.name, tier], size_bytes)
        leaving.add_metric([camera.name], tiers.leaving_site_bytes)
    yield from (answers, sent, leaving)


def _frame_metrics(cameras: list[CameraStatus]) -> Iterator[Metric]:
    captured = CounterMetricFamily("foveate_frames_captured", "Frames taken in.", labels=["camera"])
    finals = CounterMetricFamily("foveate_frames_final", "Frames answered, by origin.", labels=["camera", "origin"])
    drops = CounterMetricFamily("foveate_frames_dropped", "Frames ended without a result.", labels=["camera", "reason"])
    in_flight = GaugeMetricFamily("foveate_frames_in_flight", "Frames not yet ended.", labels=["camera"])
    for camera in cameras:
        captured.add_metric([camera.name], camera.captured)
        for origin in _with_known(Origin, camera.finals):
            finals.add_metric([camera.name, origin], camera.finals.get(origin, 0))
        for reason in _with_known(DropReason, camera.drops):
            drops.add_metric([camera.name, reason], camera.drops.get(reason, 0))
        in_flight.add_metric([camera.name], camera.in_flight)
    yield from (captured, finals, drops, in_flight)


def _latency_metrics(cameras: list[CameraStatus]) -> Iterator[Metric]:
    total = GaugeMetricFamily(
        "foveate_latency_seconds", "Capture to answer over the last minute.", labels=["camera", "quantile"]
    )
    segments = GaugeMetricFamily(
        "foveate_segment_latency_seconds",
        "Time in network, queue, edge or cloud over the last minute.",
        labels=["camera", "segment", "quantile"],
    )
    for camera in cameras:
        for quantile, value_s in _quantiles(camera.latency):
            total.add_metric([camera.name, quantile], value_s)
        for segment, percentiles in camera.segments.items():
            for quantile, value_s in _quantiles(percentiles):
                segments.add_metric([camera.name, segment, quantile], value_s)
    yield from (total, segments)


def _camera_metrics(cameras: list[CameraStatus]) -> Iterator[Metric]:
    one = ["camera"]
    deadline = GaugeMetricFamily("foveate_deadline_seconds", "The deadline for an answer.", labels=one)
    hit = GaugeMetricFamily("foveate_deadline_hit_ratio", "Share of answers within the deadline.", labels=one)
    lambda_edge = GaugeMetricFamily("foveate_lambda_edge_ratio", "Share answered without the cloud.", labels=one)
    uplink = GaugeMetricFamily("foveate_uplink_bytes_per_second", "Bytes sent to workers.", labels=one)
    fps = GaugeMetricFamily("foveate_analysed_frames_per_second", "Frames given to a model.", labels=one)
    state = GaugeMetricFamily("foveate_camera_state", "1 for the camera's state.", labels=["camera", "state"])
    objects = GaugeMetricFamily("foveate_objects", "Objects in the newest result.", labels=["camera", "label"])
    for camera in cameras:
        name = [camera.name]
        deadline.add_metric(name, camera.deadline_ms / 1000)
        if camera.deadline_hit_ratio is not None:
            hit.add_metric(name, camera.deadline_hit_ratio)
        if camera.lambda_edge is not None:
            lambda_edge.add_metric(name, camera.lambda_edge)
        uplink.add_metric(name, camera.uplink_kbit_s * 1000 / 8)
        fps.add_metric(name, camera.analysed_fps)
        for value in _with_known(CameraState, [camera.state]):
            state.add_metric([camera.name, value], value == camera.state)
        for label, count in camera.counts.items():
            objects.add_metric([camera.name, label], count)
    yield from (deadline, hit, lambda_edge, uplink, fps, state, objects)


def _budget_metrics(cameras: list[CameraStatus]) -> Iterator[Metric]:
    one = ["camera"]
    accepted = CounterMetricFamily("foveate_sla_accepted", "Frames accepted for analysis.", labels=one)
    hits = CounterMetricFamily("foveate_sla_hits", "Of these, answered within the SLA.", labels=["camera", "by"])
    within = GaugeMetricFamily("foveate_sla_within_seconds", "What in time means for the SLA.", labels=one)
    target = GaugeMetricFamily("foveate_sla_target_ratio", "Share that the SLA promises.", labels=one)
    met = GaugeMetricFamily("foveate_sla_met", "1 while the share since the start reaches the target.", labels=one)
    budget = GaugeMetricFamily("foveate_budget_seconds", "Latency budget.", labels=["camera", "segment"])
    breached = GaugeMetricFamily("foveate_budget_breached", "1 while it is breached.", labels=["camera", "segment"])
    steps = GaugeMetricFamily("foveate_turned_down_steps", "Steps taken by action.", labels=["camera", "action"])
    for camera in cameras:
        name = [camera.name]
        if (found := camera.attainment) is not None:
            accepted.add_metric(name, found.accepted)
            hits.add_metric([camera.name, "edge"], found.hit_edge)
            hits.add_metric([camera.name, "cloud"], found.hit_cloud)
            within.add_metric(name, found.within_ms / 1000)
            target.add_metric(name, found.target)
            if found.met is not None:
                met.add_metric(name, found.met)
        for segment, budget_ms in camera.budgets_ms.items():
            budget.add_metric([camera.name, segment], budget_ms / 1000)
            breached.add_metric([camera.name, segment], any(b.segment == segment for b in camera.breaches))
        for action in _with_known(Action, camera.steps) if camera.budgets_ms else ():
            steps.add_metric([camera.name, action], camera.steps.get(action, 0))
    yield from (accepted, hits, within, target, met, budget, breached, steps)


def _learning_metrics(cameras: list[CameraStatus]) -> Iterator[Metric]:
    lessons = GaugeMetricFamily("foveate_lessons", "Lessons that a camera has to learn from.", labels=["camera"])
    progress = GaugeMetricFamily("foveate_training_progress_ratio", "How far a training is.", labels=["camera"])
    agreement = GaugeMetricFamily("foveate_model_agreement", "F1 against the larger model.", labels=["camera"])
    for camera in cameras:
        if (learning := camera.learning) is None:
            continue
        lessons.add_metric([camera.name], learning.lessons)
        if learning.progress is not None:
            progress.add_metric([camera.name], learning.progress)
        if learning.agreement is not None:
            agreement.add_metric([camera.name], learning.agreement)
    yield from (lessons, progress, agreement)


def _quantiles(percentiles: Percentiles) -> Iterator[tuple[str, float]]:
    for quantile, value_ms in (("0.5", percentiles.p50_ms), ("0.99", percentiles.p99_ms)):
        if value_ms is not None:
            yield quantile, value_ms / 1000


def _with_known(known: Iterable[str], present: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*(str(name) for name in known), *present]))
