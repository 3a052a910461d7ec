"""Agents that registered with this replica, and their last report. In memory; no I/O."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostler.agent.messages import Report
from hostler.control.access import ForbiddenError
from hostler.control.fleet.errors import StaleReportError
from hostler.control.store.rows.hosts import HostCredentialRow

__all__ = ["AgentSession", "AgentSessions"]


class AgentSession(msgspec.Struct, kw_only=True):
    """A valid registration. ``since`` is when it was made, in steady nanoseconds."""

    host: str
    boot: str
    agent: str
    epoch: int
    since: int
    generation: int  # of the host's orders when it registered
    news: int = 0  # of the host, when it was last seen in the database that this registration counts
    sequence: int = 0
    refused_teardown: int = 0
    is_watched: bool | None  # as it is written down; None while a report is on its way there, whatever comes of it
    watched_vms: int = 1  # as it is written down
    must_relearn: bool = False
    told_stop_s: float = 0.0  # the lease age at which it was told to stop VMs
    is_told_kept: bool = True  # it is written down that this is what the host goes by

    def is_heartbeat(self, report: Report) -> bool:
        """Say whether a report has nothing to store."""
        if report.vms or report.gone or report.departed:
            return False
        if any(news is not None for news in (report.unknown, report.taken, report.size)):
            return False
        if report.is_watched is not self.is_watched or report.watched_vms != self.watched_vms:
            return False
        if not self.is_told_kept:
            return False
        return report.refused_teardown == self.refused_teardown and not self.has_relearned(report)

    def has_relearned(self, report: Report) -> bool:
        """Say whether an agent that had to learn its orders again has done so."""
        return self.must_relearn and report.orders >= self.generation


class AgentSessions:
    """All registrations of this replica, by host."""

    def __init__(self) -> None:
        self._by_host: dict[str, AgentSession] = {}
        self._host_of: dict[str, str] = {}  # by agent

    def __len__(self) -> int:
        return len(self._by_host)

    def find(self, host: str) -> AgentSession | None:
        """Return the valid registration of a host."""
        return self._by_host.get(host)

    def open(self, session: AgentSession) -> None:
        """Replace an older registration by this one."""
        known = self._by_host.get(session.host)
        if known is None or known.epoch < session.epoch:
            self.drop(session.host)
            self._by_host[session.host] = session
            self._host_of.setdefault(session.agent, session.host)

    def admit(self, host: str, report: Report) -> AgentSession:
        """Return the session of a report and count the report; StaleReportError, ForbiddenError."""
        session = self._by_host.get(host)
        if session is None or (session.boot, session.agent) != (report.boot, report.agent):
            if self._host_of.get(report.agent, host) != host:
                hint = "each agent uses the credential of its own host"
                raise ForbiddenError("this report is that of another host's agent", hint=hint)
            raise StaleReportError("this agent is not registered here", hint="register again")
        if session.epoch != report.epoch:
            raise StaleReportError("this registration is over", hint="register again")
        if report.sequence <= session.sequence:
            hint = "a replay or a delayed packet: nothing was changed"
            raise StaleReportError(f"report {report.sequence} comes after {session.sequence}", hint=hint)
        session.sequence = report.sequence
        return session

    def drop(self, host: str) -> None:
        """End a host's registration."""
        session = self._by_host.pop(host, None)
        if session is not None and self._host_of.get(session.agent) == host:
            del self._host_of[session.agent]

    def compare(self, rows: Mapping[str, HostCredentialRow], read_at: int) -> None:
        """End registrations that the database, read at a time, knows to be over."""
        for host, session in list(self._by_host.items()):
            row = rows.get(host)
            is_over = session.since < read_at if row is None else row.epoch > session.epoch
            if is_over:
                self.drop(host)
