"""Who looks at a camera's frames first: what each way takes, and the decision between them, at work."""

from collections import deque
from statistics import median

from edge_agent.steer import Outlook
from pipeline.policies.route import Route, RouteSettings, RouteView, Routing

_LOOKS = 3


class Router:
    """The route of one camera. Where it is not ``auto``, the small model looks first, whatever it takes."""

    def __init__(self, settings: RouteSettings, *, auto: bool) -> None:
        self.settings, self._auto = settings, auto
        self._looks_ms: deque[float] = deque(maxlen=_LOOKS)
        self._looked_at_s = self._refreshed_at_s = float("-inf")
        self.routing = Routing()

    def looked(self, edge_ms: float, now_s: float) -> None:
        """Note what a look of the small model took, with its queue."""
        self._looks_ms.append(edge_ms)
        self._looked_at_s = now_s

    def _edge_ms(self, now_s: float) -> float | None:
        """What a look takes: the middle one of the last three, for one slow look is no slow model. None where they are
        too few or too long ago.
        """
        fresh = len(self._looks_ms) == _LOOKS and now_s - self._looked_at_s < _LOOKS * self.settings.refresh_s
        return median(self._looks_ms) if fresh else None

    def first(
        self, outlook: Outlook, size_bytes: float | None, remaining_ms: float, now_s: float, *, held_back: bool = False
    ) -> Route:
        """Who looks first at a frame whose turn has come, to be sent in ``size_bytes`` (None: the usual ones).

        A frame that is ``held_back`` from the cloud by some budget is for the small model, where that comes in time.
        """
        if not self._auto:
            return Route.EDGE
        path, edge_ms = outlook.path, self._edge_ms(now_s)
        forecast = None
        if path.knows_worker("mosaic", now_s):  # a probe alone tells nothing of what the larger model takes
            forecast = path.forecast(path.usual_bytes if size_bytes is None else size_bytes, now_s)
        self.routing = self.routing.step(
            RouteView(
                now_s=now_s,
                edge_ms=edge_ms,
                cloud_ms=None if forecast is None else forecast.mean_ms,
                cloud_tail_ms=None if forecast is None else forecast.tail_ms,
                remaining_ms=remaining_ms,
                reachable=outlook.reachable,
            ),
            self.settings,
        )
        return Route.EDGE if held_back and edge_ms is not None and edge_ms <= remaining_ms else self.routing.route

    def refresh_due(self, now_s: float) -> bool:
        """Whether it is time to learn again what the small model takes; the next time is then ``refresh_s`` later."""
        if now_s - self._refreshed_at_s < self.settings.refresh_s:
            return False
        self._refreshed_at_s = now_s
        return True
