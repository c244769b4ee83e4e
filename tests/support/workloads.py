"""Workloads of known numbers for the simulator."""

from foveate.config.settings import for_sources, plan
from foveate.plan import Plan
from foveate.simulation.workload import Place, RecordedFrame, Shot, Workload
from pipeline.policies.offload import Why

MOSAIC = Shot(5_000, 320, 160, 30_000, 1, encode_ms=2.0, decode_ms=1.0, infer_ms=15.0)
WHOLE = Shot(20_000, 576, 416, 442_368, 1, encode_ms=3.0, decode_ms=2.0, infer_ms=50.0)


def place(gain: float = 0.8, x: float = 100.0) -> Place:
    return Place((x, 100.0, x + 40.0, 200.0), Why.UNCERTAIN, gain, 0.5, due=True)


def frame(
    seq: int, at_s: float, *, edge_ms: float = 10.0, places: tuple[Place, ...] = (place(),), mosaic: Shot = MOSAIC
) -> RecordedFrame:
    return RecordedFrame(seq, at_s, 2.0, edge_ms, places, 0.5 if places else None, mosaic if places else None, WHOLE)


def workload(
    frames: int = 50, fps: float = 5.0, *, edge_ms: float = 10.0, places: tuple[Place, ...] = (place(),),
    mosaic: Shot = MOSAIC,
) -> Workload:  # fmt: skip
    """Every due frame is kept and asks the same."""
    kept = tuple(frame(i, i / fps, edge_ms=edge_ms, places=places, mosaic=mosaic) for i in range(frames))
    return Workload("scene", frames / fps, fps, 768, 576, frames * 2, frames, kept)


def product(**overrides: object) -> Plan:
    """The product's defaults without a search for what was missed, which would ask about whole frames; overrides by
    their keys with ``__`` for a dot.
    """
    keys: dict[str, object] = {"cameras.offload.full_frame_s": 0.0, "cameras.offload.audit_share": 0.0}
    keys.update({name.replace("__", "."): value for name, value in overrides.items()})
    return plan(for_sources(["synthetic:"], keys))
