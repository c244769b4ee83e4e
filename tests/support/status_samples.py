"""Scripted snapshots for tests of the status page."""

import math
from collections.abc import Sequence
from typing import Any

import cv2
import msgspec
import numpy as np

from edge_agent.status.snapshot import (
    AgentStatus,
    AttainmentStatus,
    BreachStatus,
    CameraStatus,
    LearningPoint,
    LearningStatus,
    PathStatus,
    Percentiles,
    QueueStatus,
    TargetStatus,
    TiersStatus,
    WorkerStatus,
)
from pipeline.alerts import Alert
from pipeline.wire.messages import BatchFigures, ReuseFigures

HOSTILE = '<img src=x onerror="window.hacked=1">\'&amp;"🦊'


def jpeg(seq: int = 0, width: int = 768, height: int = 576) -> bytes:
    """A picture that looks like a scene, with two boxes; ``seq`` moves them."""
    rows = np.linspace(90, 170, height, dtype=np.uint8)[:, None, None]
    image = np.ascontiguousarray(np.broadcast_to(rows, (height, width, 3)) * np.array([0.95, 1.0, 0.9])).astype(
        np.uint8
    )
    cv2.rectangle(image, (0, int(height * 0.62)), (width, height), (96, 104, 100), -1)
    for n, left in enumerate((0.18, 0.55)):
        x, y = int(width * left) + 3 * seq % 60, int(height * (0.4 + 0.12 * n))
        cv2.ellipse(image, (x + 22, y + 60), (20, 58), 0, 0, 360, (60, 66, 92), -1)
        cv2.rectangle(image, (x, y), (x + 44, y + 120), (180, 210, 60), 2)
        cv2.putText(image, f"person 0.{81 - 9 * n}", (x, y - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (180, 210, 60), 1)
    ok, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])
    assert ok
    return bytes(data)


def percentiles(p50_ms: float | None, p99_ms: float | None) -> Percentiles:
    return Percentiles(p50_ms, p99_ms, 0 if p50_ms is None else 300)


def camera(name: str = "plaza", **changes: Any) -> CameraStatus:
    """A camera in good health whose every number is different from every other."""
    base = CameraStatus(
        name=name,
        title="Plaza, north side",
        state="live",
        reason="pictures arrive at 25 per second",
        since="2026-03-01T12:00:00.000Z",
        captured=12_345,
        capture_fps=25.04,
        analysed_fps=5.02,
        finals={"cloud": 211, "fused": 1502, "edge": 640, "edge_timeout": 37, "edge_shed": 12, "carried": 9926},
        drops={"overwritten": 13, "unusable": 1},
        in_flight=3,
        deadline_ms=200.0,
        deadline_hit_ratio=0.99964,
        latency=percentiles(61.4, 183.2),
        segments={
            "network": percentiles(12.3, 88.1),
            "queue": percentiles(4.2, 31.7),
            "edge": percentiles(9.6, 22.4),
            "cloud": percentiles(28.9, 47.5),
        },
        lambda_edge=0.714,
        uplink_kbit_s=432.6,
        counts={"person": 7, "bicycle": 2},
        picture_seq=None,
        attainment=AttainmentStatus(150.0, 0.98, 2402, 689, 1706, 2395 / 2402, met=True),
        budgets_ms={"network": 90.0, "queue": 35.0, "edge": 25.5, "cloud": 50.0},
    )
    return msgspec.structs.replace(base, **changes)


def silent_camera(name: str = "gate", **changes: Any) -> CameraStatus:
    """A camera that never delivered anything."""
    nothing = percentiles(None, None)
    base = CameraStatus(
        name=name,
        title="Gate",
        state="offline",
        reason="rtsp://192.0.2.7/stream refused the connection; trying again in 8 s",
        since="2026-03-01T12:04:10.000Z",
        captured=0,
        capture_fps=0.0,
        analysed_fps=0.0,
        finals={},
        drops={},
        in_flight=0,
        deadline_ms=200.0,
        deadline_hit_ratio=None,
        latency=nothing,
        segments=dict.fromkeys(("network", "queue", "edge", "cloud"), nothing),
        lambda_edge=None,
        uplink_kbit_s=0.0,
        counts={},
        picture_seq=None,
    )
    return msgspec.structs.replace(base, **changes)


def troubled_camera(name: str = "gate", **changes: Any) -> CameraStatus:
    """A camera with a breached budget, which misses its promise and is turned down."""
    return camera(
        name,
        **{
            "title": "Gate",
            "attainment": AttainmentStatus(100.0, 0.9, 1800, 1310, 230, 1540 / 1800, met=False),
            "breaches": [BreachStatus("edge", None, 62.4, 25.5, "2026-03-01T12:04:41.000Z")],
            "segments": {**camera().segments, "edge": percentiles(39.6, 62.4)},
            "turned_down": {"lower_sample_rate": "at most 2.5 frames per second are analysed"},
            "steps": {"lower_sample_rate": 1},
            **changes,
        },
    )


def alert(**changes: Any) -> Alert:
    base = Alert(
        camera="gate",
        segment="edge",
        state="breached",
        p99_ms=62.4,
        budget_ms=25.5,
        since="2026-03-01T12:04:41.000Z",
        action="lower_sample_rate",
        detail="edge: P99 of 62.4 ms is above the budget of 25.5 ms",
        at="2026-03-01T12:04:41.000Z",
    )
    return msgspec.structs.replace(base, **changes)


def worker(name: str = "w-1", **changes: Any) -> WorkerStatus:
    base = WorkerStatus(
        worker=name,
        online=True,
        reason="",
        tier="cloud",
        models=["nanodet-g-416@1"],
        queue_length=4,
        infer_ms_p95=44.8,
    )
    return msgspec.structs.replace(base, **changes)


def queue(name: str = "uplink", **changes: Any) -> QueueStatus:
    base = QueueStatus(
        name=name, length=2, arrivals_per_s=11.5, wait_ms=61.0, expected_length=0.7015, mean_length=0.6984
    )
    return msgspec.structs.replace(base, **changes)


def target(name: str = "edge@hall", **changes: Any) -> TargetStatus:
    """The workers in a hall on site."""
    base = TargetStatus(
        target=name,
        tier=name.partition("@")[0],
        location=name.partition("@")[2],
        model="nanodet-g-416",
        workers=2,
        closed="",
        round_trip_ms=43.7,
        in_flight=1,
        asked=1_840,
        answered=1_801,
        refused=21,
        moved=18,
        bytes_up=14_720_000,
    )
    return msgspec.structs.replace(base, **changes)


def tiers(**changes: Any) -> TiersStatus:
    """A camera that gives the cloud masked crops alone."""
    base = TiersStatus(
        allowed=["device", "edge", "cloud"],
        masked_only=["cloud"],
        plan=["edge@hall", "cloud"],
        answers={"device": 10_615, "edge": 1_517, "cloud": 196},
        sent_bytes={"edge": 12_140_000, "cloud": 1_568_400},
        leaving_site_bytes=1_568_400,
    )
    return msgspec.structs.replace(base, **changes)


def serving_worker(name: str = "w-2", **changes: Any) -> WorkerStatus:
    """A worker that batches and remembers."""
    return worker(
        name,
        **{
            "tier": "edge",
            "location": "hall",
            "wait_ms": 12.6,
            "batches": BatchFigures(
                sizes={"1": 804, "2": 311, "4": 96, "8": 12},
                reasons={"full": 12, "deadline": 214, "idle": 997},
                padded_share=0.0823,
            ),
            "reuse": ReuseFigures(
                joined=77,
                hits=412,
                misses=1388,
                hit_ratio=0.229,
                hit_ms=1.9,
                miss_ms=52.4,
                mean_ms=40.8,
                held_bytes=318_200,
            ),
            **changes,
        },
    )


def path(**changes: Any) -> PathStatus:
    """The way to the cloud over a middling link."""
    base = PathStatus(
        tier="cloud",
        bandwidth_kbit_s=4_230.0,
        request_bytes=7_400.0,
        up_ms=32.4,
        queue_ms=1.6,
        cloud_ms=21.5,
        down_ms=24.5,
        tail_ms=104.0,
        age_s=0.2,
    )
    return msgspec.structs.replace(base, **changes)


def learning(**changes: Any) -> LearningStatus:
    """A camera in the middle of a training."""
    base = LearningStatus(
        stage="training",
        in_words="learning from 412 lessons: step 300 of 1,200",
        lessons=412,
        way="own",
        progress=0.25,
        left_s=184.0,
        current="nanodet-g-int8@1.0.0",
        agreement=0.874,
        last="refused: own: its F1 at the agent's threshold is 0.701, that of nanodet-g-int8@1.0.0 0.804",
    )
    return msgspec.structs.replace(base, **changes)


def learning_curve(minutes: int = 90, learned_at: int = 40) -> list[LearningPoint]:
    """Lessons gather, a model of the camera's own comes, agreement rises, and uplink and time fall."""
    points = []
    for minute in range(minutes):
        own = minute >= learned_at
        points.append(
            LearningPoint(
                at=f"2026-03-01T{10 + minute // 60:02d}:{minute % 60:02d}:00.000Z",
                lessons=6 * min(minute, 70),
                agreement=None if minute < 2 else (0.93 if own else 0.87) + 0.01 * math.sin(minute / 3),
                uplink_kbit_s=(110 if own else 330) + 25 * math.sin(minute / 2),
                look_ms=(1.6 if own else 6.8) + 0.3 * math.sin(minute),
                model="plaza-own@1" if own else "nanodet-g-int8@1.0.0",
            )
        )
    return points


def agent(**changes: Any) -> AgentStatus:
    base = AgentStatus(
        agent="edge-7",
        version="0.1.0",
        started="2026-03-01T11:58:00.000Z",
        now="2026-03-01T12:05:03.000Z",
        broker="127.0.0.1:1883",
        broker_connected=True,
        broker_reason="",
        cloud="closed",
        cameras=[camera()],
        workers=[worker()],
        models={"edge": "nanodet-g-192@1", "cloud": "nanodet-g-416@1"},
        ready=True,
        ready_reason="",
        counters={"uplink_missed": 17},
    )
    return msgspec.structs.replace(base, **changes)


class FakeStatusSource:
    """A source whose snapshot and pictures the test sets; it counts how often it was asked."""

    def __init__(self, status: AgentStatus | None = None) -> None:
        self.current = status or agent()
        self.pictures: dict[str, tuple[int, bytes]] = {}
        self.curves: dict[str, list[LearningPoint]] = {}
        self.status_calls = 0
        self.picture_calls: list[str] = []

    def status(self) -> AgentStatus:
        self.status_calls += 1
        return self.current

    def picture(self, camera: str) -> tuple[int, bytes] | None:
        self.picture_calls.append(camera)
        return self.pictures.get(camera)

    def learning_curve(self, camera: str) -> Sequence[LearningPoint]:
        return self.curves.get(camera, ())

    def show(self, name: str, seq: int) -> None:
        """Give the camera a new picture, in the snapshot too."""
        self.pictures[name] = seq, jpeg(seq)
        cameras = [
            msgspec.structs.replace(camera, picture_seq=seq) if camera.name == name else camera
            for camera in self.current.cameras
        ]
        self.current = msgspec.structs.replace(self.current, cameras=cameras)
