"""What all questions of a camera have in common, and when those that no frame waits for are in nobody's way."""

from edge_agent.context import Context
from edge_agent.frame_work import masked
from edge_agent.questions import Question
from edge_agent.steer import Outlook
from pipeline.frames import Frame, FrameKey
from pipeline.mosaic import Layout

DEVICE_SHORTFALL = 0.08
"""What the small model's answer lacks until that was measured: about as on the busy clip."""
LEAST_SHORTFALL = 0.02
"""On an empty scene the models agree, and that says nothing of the next person on it."""


def question(
    context: Context,
    frame: Frame,
    kind: str,
    drawn: tuple[Layout, bytes],
    settle_at_s: float,
    trial_key: FrameKey | None = None,
) -> Question:
    """A question about a frame as it was drawn, under a ``trial_key`` where no frame waits for the answer."""
    layout, data = drawn
    return Question(
        key=frame.key if trial_key is None else trial_key,
        kind=kind,
        frame_width=frame.size.width,
        frame_height=frame.size.height,
        crops=layout.crops,
        jpeg=data,
        settle_at_s=settle_at_s,
        weight=context.settings.weight,
        trial=trial_key is not None,
        masked=masked(kind, layout.crops, frame.size, context.settings),
        stands=_stands(context, frame.key, kind),
    )


def _stands(context: Context, key: FrameKey, kind: str) -> float | None:
    """The shortfall of the answer that a frame has. Whole frames are asked about at any cost, therefore None; and None
    where the small model has not looked.
    """
    pending = context.resolver.get(key)
    if kind == "frame" or (pending is not None and pending.edge_model is None):
        return None
    return device_shortfall(context)


def device_shortfall(context: Context) -> float:
    """The part of the best F1 that an answer lacks without the larger model's, as measured on whole frames."""
    agreement = context.steer.agreement.f1
    return DEVICE_SHORTFALL if agreement is None else max(LEAST_SHORTFALL, 1.0 - agreement)


def undisturbed(context: Context) -> Outlook | None:
    """What may be expected of the way, where nothing on it is held back or turned down; None where something is."""
    outlook = context.tools.uplink.outlook(context.name, context.settings.offload.tail_deviations)
    neutral = context.levers.crop_scale_factor >= 1.0 and context.levers.lambda_least <= 0.0
    return outlook if neutral and outlook.reachable and not context.steer.state.hindrance else None


def has_tokens(outlook: Outlook) -> bool:
    """Whether the uplink budget has room for a usual question."""
    return outlook.tokens_bytes is None or outlook.tokens_bytes >= outlook.path.usual_bytes
