"""What agents say, carried into the books: works of the store, for ``fleet``.

Transactions of all replicas come one after the other, so an epoch that is right here is right until COMMIT, and
nothing of a message is taken whose epoch is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hostler.agent.limits import MOST_UNKNOWN
from hostler.agent.messages import PROTOCOL, Capabilities, Register, Report, Taken, VmReport
from hostler.control.books import ledger
from hostler.control.books.ledger import Actors, Stored
from hostler.control.fleet.announcing import alive, announce
from hostler.control.fleet.errors import AgentInUseError, HostDeletedError, StaleReportError
from hostler.control.fleet.hosts import HostBody, described, is_unregistered, read_body, sized
from hostler.control.fleet.ordering import KEEPS_SHARED, count_teardown
from hostler.control.fleet.troubles import news_of_trouble
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, hosts
from hostler.control.store.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.orders import order_for
from hostler.control.vms.state import Change, Vm
from hostler.errors import HostlerError
from hostler.model import CPU, MEMORY, STORAGE, Amounts, amounts
from hostler.model.quantities import MAX_AMOUNT

__all__ = ["Told", "agent_of", "is_booked", "take_registration", "take_reports", "write_changes"]

_replace = msgspec.structs.replace
_FORMER_AGENTS = 16
_PLAIN = ControlSettings()


def agent_of(host: str) -> str:
    """Return how the audit names the agent of a host."""
    return f"agent:{host}"


def take_registration(
    connection: Connection,
    host: str,
    message: Register,
    *,
    protocol: int = PROTOCOL,
    settings: ControlSettings = _PLAIN,
    now_ns: int,
) -> tuple[HostRow, HostBody]:
    """Begin a new epoch with all that a host is and has, in a protocol that both sides speak.

    HostDeletedError, StaleReportError, AgentInUseError.
    """
    before = alive(connection, host)
    known = read_body(before)
    _check_new(before, known, message)
    if hosts.is_agent_elsewhere(connection, message.agent, host=host):
        hint = "every start of an agent has an id of its own: start it anew"
        raise AgentInUseError("another host's agent has this id", hint=hint)
    told = {report.vm: report for report in message.vms}
    loaded = ledger.of_host(connection, host)
    here = {stored.vm.id for stored in loaded}
    others = ledger.load_many(connection, (vm for vm in told if vm not in here))
    body = _replace(
        sized(before, described(known, message), message.size, settings),
        protocol=protocol,
        must_rotate=False,
        capabilities=_capabilities(message, protocol),
        unknown=message.unknown[:MOST_UNKNOWN],
        remains=_remains((), told, others, host),
        strangers=_strangers((), told, {*here, *others}),
        taken=_taken(message.taken, here),
        registrations=message.sequence,
        former_agents=_former_agents(before, known, message),
    )
    missing = [vm for vm in here if vm not in told and vm not in message.unknown]
    body = _without_spent_leave(connection, host, body, missing if message.is_inventory_known else [])
    row = _replace(
        before,
        state="ready",
        boot=message.boot,
        agent=message.agent,
        epoch=before.epoch + 1,
        seen_ns=now_ns,
        generation=before.generation + (body.remains != known.remains),
    )
    body, trouble = news_of_trouble(known, body, now_ns)
    text = "; ".join(part for part in (_how_heard(before), trouble) if part)
    # Other replicas may hold an older registration of this host: they are to look.
    row = announce(connection, before, row, body, actor=agent_of(host), now_ns=now_ns, text=text, is_news=True)
    found = [(stored, _found(stored.vm, host, told.get(stored.vm.id), message)) for stored in loaded]
    write_changes(connection, found, actor=agent_of(host), now_ns=now_ns)
    return row, body


def _how_heard(before: HostRow) -> str:
    """Say for people what a registration ends; nothing for a host that was well."""
    if is_unregistered(before):
        return "registered again after the restore"
    return {"joined": "registered for the first time", "ready": ""}.get(before.state, "heard again")


def _capabilities(message: Register, protocol: int) -> Capabilities:
    """Return what a host can do: agents that cannot be told to leave shared disks alone take no part in moves."""
    known = message.capabilities
    return known if protocol >= KEEPS_SHARED else _replace(known, live_migration=False)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A report, from which host, and whether it ends what the host had to learn anew."""

    host: str
    message: Report
    has_relearned: bool = False
    settings: ControlSettings = _PLAIN
    now_ns: int


def take_reports(connection: Connection, told: Sequence[Told]) -> list[HostBody | HostlerError]:
    """Take in what changed on hosts, as a joint work; StaleReportError where an epoch is over, HostDeletedError."""
    outcomes: list[HostBody | HostlerError] = []
    for some in _apart(told):
        outcomes += _take_apart(connection, some)
    return outcomes


def _apart(told: Sequence[Told]) -> list[list[Told]]:
    """Return reports in their order, in parts within which no two are about the same host or VM."""
    parts: list[list[Told]] = []
    seen: set[str] = set()
    for one in told:
        about = {one.host, *_vms_of(one.message)}
        if not parts or seen & about:
            parts.append([])
            seen = set()
        parts[-1].append(one)
        seen |= about
    return parts


def _take_apart(connection: Connection, told: Sequence[Told]) -> list[HostBody | HostlerError]:
    rows = hosts.find_some(connection, [one.host for one in told])
    loaded = ledger.load_many(connection, {vm for one in told for vm in (*_vms_of(one.message), *_takers_of(one))})
    outcomes: list[HostBody | HostlerError] = []
    changes: list[tuple[Stored, Change]] = []
    actors: dict[str, str] = {}
    for one in told:
        mine = {vm: loaded[vm] for vm in _vms_of(one.message) if vm in loaded}
        try:
            row = _checked(rows.get(one.host), one.message)
            known = read_body(row)
            body = _reported(connection, row, one, mine)
            if one.message.taken is not None:
                body = _replace(body, taken=_taken(one.message.taken, _booked_among(one, loaded)))
        except HostlerError as error:
            outcomes.append(error)
            continue
        outcomes.append(body)
        if body != known:
            row = alive(connection, one.host)
            new = _replace(row, generation=row.generation + (body.remains != known.remains))
            body, text = news_of_trouble(known, body, one.now_ns)
            announce(connection, row, new, body, actor=agent_of(one.host), now_ns=one.now_ns, text=text)
        changes += [(stored, _told_of(stored.vm, one)) for stored in mine.values()]
        actors |= dict.fromkeys(mine, agent_of(one.host))
    write_changes(connection, changes, actor=actors, now_ns=max(one.now_ns for one in told))
    return outcomes


def _vms_of(message: Report) -> tuple[str, ...]:
    return (*(report.vm for report in message.vms), *_gone_of(message))


def _takers_of(told: Told) -> tuple[str, ...]:
    return tuple(one.vm for one in told.message.taken or ())


def _booked_among(told: Told, loaded: Mapping[str, Stored]) -> set[str]:
    """Return those VMs without an order that are booked on their host all the same, as after a restore."""
    return {vm for vm in _takers_of(told) if vm in loaded and is_booked(loaded[vm].vm, told.host)}


def _gone_of(message: Report) -> dict[str, int]:
    """Return the VMs that are gone, with the generation of the order by which; 0 where the agent does not tell it."""
    return dict.fromkeys(message.gone, 0) | {one.vm: one.generation for one in message.departed}


def _checked(row: HostRow | None, message: Report) -> HostRow:
    if row is None or row.deleted_ns is not None:
        raise HostDeletedError("this host was deleted", hint="join again with a new token")
    if (row.epoch, row.agent, row.boot) != (message.epoch, message.agent, message.boot):
        raise StaleReportError("this registration is over", hint="register again")
    return row


def _told_of(vm: Vm, told: Told) -> Change:
    """Return what a report changes about one VM."""
    change = Change(vm=vm)
    for report in told.message.vms:
        if report.vm == vm.id:
            change = reports.reported(vm, told.host, report)
    gone = _gone_of(told.message)
    return _then_gone(change, told.host, gone[vm.id]) if vm.id in gone else change


def write_changes(
    connection: Connection, changes: Iterable[tuple[Stored, Change]], *, actor: Actors, now_ns: int
) -> int:
    """Write those changes that change something; return how many there were."""
    real = [
        (stored, change)
        for stored, change in changes
        if change.vm != stored.vm or change.facts or change.hosts or change.notes or change.failed or change.unmoved
    ]
    if real:
        ledger.write_many(connection, real, actor=actor, now_ns=now_ns)
    return len(real)


def is_booked(vm: Vm, host: str) -> bool:
    """Say whether a host has, or is to have, a VM."""
    return any(booking is not None and booking.host == host for booking in (vm.home, vm.other))


def _check_new(row: HostRow, body: HostBody, message: Register) -> None:
    """Refuse a registration that was sent before, or late: it would speak for VMs that have come and gone since."""
    if message.agent in body.former_agents:
        hint = "one agent per host: stop the older one"
        raise StaleReportError("another agent has taken this host over", hint=hint)
    if message.agent == row.agent and body.registrations and message.sequence <= body.registrations:
        hint = "a replay or a delayed packet: nothing was changed"
        raise StaleReportError(f"registration {message.sequence} comes after {body.registrations}", hint=hint)


def _former_agents(row: HostRow, body: HostBody, message: Register) -> tuple[str, ...]:
    if not row.agent or row.agent == message.agent:
        return body.former_agents
    return (*body.former_agents, row.agent)[-_FORMER_AGENTS:]


def _found(vm: Vm, host: str, report: VmReport | None, message: Register) -> Change:
    """Return what follows for a VM from a list of all that a host has."""
    vm = reports.heard(vm).vm
    if report is not None:
        return reports.reported(vm, host, report)
    if not message.is_inventory_known or vm.id in message.unknown:
        return Change(vm=vm)  # it may be there
    order = order_for(vm, host)
    if order is not None and order.power == "absent":
        return reports.gone(vm, host)
    if vm.home is not None and vm.home.host == host and vm.reported not in ("", "absent"):
        return reports.reported(vm, host, VmReport(vm=vm.id, state="absent"))  # its agent makes it anew, by its orders
    return Change(vm=vm)


def _then_gone(first: Change, host: str, generation: int) -> Change:
    second = reports.gone(first.vm, host, generation)
    return _replace(
        second,
        facts=(*first.facts, *second.facts),
        hosts=tuple(dict.fromkeys((*first.hosts, *second.hosts))),
        notes=(*first.notes, *second.notes),
        failed=first.failed or second.failed,
        unmoved=first.unmoved or second.unmoved,
    )


def _reported(connection: Connection, row: HostRow, one: Told, loaded: Mapping[str, Stored]) -> HostBody:
    host, message, body = one.host, one.message, read_body(row)
    told = {report.vm: report for report in message.vms}
    gone = _gone_of(message)
    kept = [vm for vm in body.remains if vm not in gone and vm not in told]
    body = _replace(
        body,
        unknown=message.unknown[:MOST_UNKNOWN] if message.unknown is not None else body.unknown,
        strangers=_strangers([vm for vm in body.strangers if vm not in gone and vm not in told], told, loaded),
        refused_teardown=max(message.refused_teardown, 0),
        is_watched=message.is_watched,
        remains=_remains(kept, told, loaded, host),
        must_relearn=body.must_relearn and not one.has_relearned,
    )
    if message.size is not None:
        body = sized(row, body, message.size, one.settings)
    believed = [vm for vm in gone if vm not in loaded or not reports.is_old_news(loaded[vm].vm, host, gone[vm])]
    return _without_spent_leave(connection, host, body, believed)


def _without_spent_leave(connection: Connection, host: str, body: HostBody, gone: Collection[str]) -> HostBody:
    """Take the leave to tear down many VMs back once none of them is left."""
    if not body.may_tear_down or body.refused_teardown or count_teardown(connection, host, body, without=gone):
        return body
    return _replace(body, may_tear_down=0)


def _remains(
    kept: Sequence[str], told: Mapping[str, VmReport], loaded: Mapping[str, Stored], host: str
) -> tuple[str, ...]:
    """Return the VMs of ours that a host has something of although nothing is booked there for them."""
    found = {vm for vm, stored in loaded.items() if vm in told and told[vm].state != "absent"}
    return tuple(sorted({*kept, *(vm for vm in found if not is_booked(loaded[vm].vm, host))}))


def _strangers(kept: Iterable[str], told: Mapping[str, VmReport], known: Collection[str]) -> tuple[str, ...]:
    """Return the VMs that a host has by its own records and that no row knows: a backup may be older than they are."""
    found = {vm for vm, report in told.items() if vm not in known and report.state != "absent"}
    return tuple(sorted({*kept, *found})[:MOST_UNKNOWN])


def _taken(told: Iterable[Taken], booked: Collection[str]) -> Amounts:
    """Return what VMs take of a host that are not booked there: what is booked, the engine counts already."""
    found = [one for one in told if one.vm not in booked]
    return amounts(
        {
            name: min(sum(getattr(one, place) for one in found), MAX_AMOUNT)
            for name, place in ((CPU, "cpu_millis"), (MEMORY, "memory_bytes"), (STORAGE, "disk_bytes"))
        }
    )
