"""What may be turned down for one camera while a latency budget is breached. Set by the budgets, read by the stages."""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Levers:
    """Neutral values change nothing.

    ``sample_fps_most``: no more frames per second are analysed (None: as the sampler wants). ``crop_scale_factor`` in
    (0, 1] shrinks what is sent. ``lambda_least`` in [0, 1]: at least this share of the analysed frames is answered at
    the edge. ``light_model``: the lighter small model looks, where there is one.
    """

    sample_fps_most: float | None = None
    crop_scale_factor: float = 1.0
    lambda_least: float = 0.0
    light_model: bool = False
