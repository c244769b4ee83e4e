"""What waits for one server, in the order of service. Plain data around the scheduling policy; reads no clock."""

from bisect import insort
from collections.abc import Hashable

from pipeline.policies.schedule import Accounts, Drop, Scheduling, Service, Ticket


class Agenda:
    """Tickets in the order that a scheduling policy gives them, and the accounts of their flows.

    Holds what it is given: its owner bounds it.
    """

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling, self._accounts = scheduling, Accounts()
        self._numbers: set[int] = set()
        self._order: list[Ticket] = []
        self._in_order = True

    def __len__(self) -> int:
        return len(self._order)

    def add(self, ticket: Ticket) -> None:
        """Let a ticket wait. Raises ValueError where its number waits already."""
        if ticket.number in self._numbers:
            raise ValueError(f"ticket {ticket.number} already waits")
        self._numbers.add(ticket.number)
        insort(self.ordered(), ticket, key=self._rank)

    def remove(self, ticket: Ticket) -> None:
        """Take a ticket out. Raises ValueError where it does not wait."""
        self._order.remove(ticket)
        self._numbers.remove(ticket.number)

    def served(self, flow: Hashable, service_s: float, now_s: float) -> None:
        """A flow has had so much of the server."""
        self._accounts.charge(flow, service_s, now_s)
        self._in_order = not self._scheduling.by_account

    def ordered(self) -> list[Ticket]:
        """All that waits, next first; to be read only."""
        if not self._in_order:
            self._order.sort(key=self._rank)
            self._in_order = True
        return self._order

    def ordered_with(self, newcomer: Ticket) -> list[Ticket]:
        """All that waits and a newcomer, next first."""
        order = self.ordered().copy()
        insort(order, newcomer, key=self._rank)
        return order

    def drops(self, service: Service, now_s: float, newcomer: Ticket | None = None) -> list[Drop]:
        """What should be given up now, or would have to be for a newcomer, itself perhaps; nothing is taken out."""
        order = self.ordered() if newcomer is None else self.ordered_with(newcomer)
        return self._scheduling.drops(order, self._accounts, service, now_s)

    def _rank(self, ticket: Ticket) -> tuple[float, ...]:
        accounts = self._accounts
        return self._scheduling.rank(ticket, accounts.had_s(ticket.flow, accounts.charged_at_s))
