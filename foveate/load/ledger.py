"""The account of one run: what was sent, and what came of it."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from foveate.load.arrivals import Arrival
from foveate.load.outcomes import End, Outcome, Served
from pipeline.wire.codec import BadPayload, decode_reply

_NUMBER_BYTES = 8


@dataclass(slots=True)
class _Entry:
    """A request that is sent or not, and its first reply."""

    sent_s: float | None = None
    ended_s: float | None = None
    end: End = End.UNANSWERED
    reason: str = ""
    served: Served | None = None
    replies: int = 0


class Ledger:
    """Keeps what happens to a fixed list of requests; moments are seconds from the run's beginning.

    The first reply to a request counts, and how many came. Replies of another run, which may still come, do not.
    """

    def __init__(self, requests: Sequence[Arrival]) -> None:
        self._requests = requests
        self._entries = [_Entry() for _ in requests]
        self._token = secrets.token_bytes(4)
        self._awaited = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self.strangers = 0
        """Replies to no request of this run."""

    def correlation(self, number: int) -> bytes:
        """The correlation data of a request of this run."""
        return self._token + number.to_bytes(_NUMBER_BYTES, "big")

    def sent(self, number: int, at_s: float) -> None:
        """A request is about to go out; called before, so that no reply can overtake it."""
        self._entries[number].sent_s = at_s
        self._awaited += 1
        self._settled.clear()

    def not_sent(self, number: int, reason: str) -> None:
        """A request did not go out, or its session did not take it after all."""
        entry = self._entries[number]
        if entry.sent_s is not None and entry.replies == 0:
            self._one_less()
        entry.sent_s, entry.end, entry.reason = None, End.NOT_SENT, reason

    def replied(self, correlation: bytes | None, payload: bytes, at_s: float) -> None:
        """A reply came; what cannot be read is a refusal for that reason."""
        number = self._number(correlation)
        if number is None:
            self.strangers += 1
            return
        entry = self._entries[number]
        entry.replies += 1
        if entry.replies > 1:
            return
        self._one_less()
        entry.ended_s = at_s
        reply = decode_reply(payload)
        if isinstance(reply, BadPayload):
            entry.end, entry.reason = End.REFUSED, f"bad_reply: {reply.reason}"
            return
        entry.end, entry.reason = (End.ANSWERED, "") if reply.refused is None else (End.REFUSED, reply.refused.value)
        entry.served = Served(
            reply.total_ms,
            reply.queue_ms,
            reply.batch_wait_ms,
            reply.infer_ms,
            reply.batch_size,
            reply.source,
            reply.worker,
        )

    async def settled(self) -> None:
        """Return once nothing that was sent is without a reply."""
        await self._settled.wait()

    def outcomes(self) -> list[Outcome]:
        """What has become of every request until now."""
        return [
            Outcome(arrival, entry.end, entry.sent_s, entry.ended_s, entry.reason, entry.served, entry.replies)
            for arrival, entry in zip(self._requests, self._entries, strict=True)
        ]

    def _number(self, correlation: bytes | None) -> int | None:
        if correlation is None or len(correlation) != len(self._token) + _NUMBER_BYTES:
            return None
        number = int.from_bytes(correlation[len(self._token) :], "big")
        ours = correlation.startswith(self._token) and number < len(self._entries)
        return number if ours and self._entries[number].sent_s is not None else None

    def _one_less(self) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._settled.set()
