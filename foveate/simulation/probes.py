"""Echo probes of a simulated edge node, as ``edge_agent/probes.py`` sends them while the circuit is open."""

from foveate.simulation.agent_decisions import AgentDecisions
from foveate.simulation.events import EventLoop
from foveate.simulation.roads import Road

ECHO_BYTES = 150


class SimulatedProbes:
    """Sends a probe whenever the breaker wants one. An echo closes the circuit."""

    def __init__(self, loop: EventLoop, agent: AgentDecisions, road: tuple[Road, Road]) -> None:
        self._loop, self._agent = loop, agent
        self._up, self._down = road
        self._unanswered = 0
        self._scheduled = False

    def send(self, _nothing: None = None) -> None:
        """Send a probe if one is due, and come back when the next one is."""
        if self._scheduled:
            return
        while (due_s := self._agent.next_probe_s(self._unanswered)) is not None:
            now_s = self._loop.now_s
            if due_s > now_s:
                self._scheduled = True
                self._loop.at(due_s, self._again)
                return
            self._agent.probed(now_s)
            self._unanswered += 1
            self._loop.at(self._up.transmit(ECHO_BYTES, now_s), self._at_worker)

    def _again(self, _nothing: None) -> None:
        self._scheduled = False
        self.send()

    def _at_worker(self, _nothing: None) -> None:
        self._loop.at(self._down.transmit(ECHO_BYTES, self._loop.now_s), self._echoed)

    def _echoed(self, _nothing: None) -> None:
        self._unanswered -= 1
        self._agent.echoed()
        self.send()
