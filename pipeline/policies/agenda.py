"""What waits for one server, in the order of service. Plain data around the scheduling policy; reads no clock."""

from collections.abc import Hashable

from pipeline.policies.schedule import Accounts, Drop, Scheduling, Service, Ticket


class Agenda:
    """Tickets in the order that a scheduling policy gives them, and the accounts of their flows.

    Holds what it is given: its owner bounds it.
    """

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling, self._accounts = scheduling, Accounts()
        self._tickets: dict[int, Ticket] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, ticket: Ticket) -> None:
        """Let a ticket wait. Raises ValueError where its number waits already."""
        if ticket.number in self._tickets:
            raise ValueError(f"ticket {ticket.number} already waits")
        self._tickets[ticket.number] = ticket

    def remove(self, number: int) -> None:
        """Take a ticket out. Raises KeyError where it does not wait."""
        del self._tickets[number]

    def served(self, flow: Hashable, service_s: float, now_s: float) -> None:
        """A flow has had so much of the server."""
        self._accounts.charge(flow, service_s, now_s)

    def ordered(self, newcomer: Ticket | None = None) -> list[Ticket]:
        """All that waits, next first; with a newcomer where one is given."""
        waiting = [*self._tickets.values()] if newcomer is None else [*self._tickets.values(), newcomer]
        accounts = self._accounts
        had_s = {ticket.flow: accounts.had_s(ticket.flow, accounts.charged_at_s) for ticket in waiting}
        return sorted(waiting, key=lambda ticket: self._scheduling.rank(ticket, had_s[ticket.flow]))

    def drops(self, service: Service, now_s: float, newcomer: Ticket | None = None) -> list[Drop]:
        """What should be given up now, or would have to be for a newcomer, itself perhaps; nothing is taken out."""
        return self._scheduling.drops(self.ordered(newcomer), self._accounts, service, now_s)
