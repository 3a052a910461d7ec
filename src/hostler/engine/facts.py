"""How facts change the state: hosts and guests that arrive, change and leave, and answers from outside.

Invariant: every handler checks first and changes afterwards, so a rejected fact leaves the state unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hostler.engine.cluster.fact_checks import check_event
from hostler.engine.gangs.queue import GANG_KEY, GangQueue
from hostler.engine.policy.policy_columns import resources_of
from hostler.engine.policy.profiles import Profiles
from hostler.engine.preemption.evictions import Evictions, refresh_holds
from hostler.engine.preemption.victim_moves import hold_destination, note_replacement
from hostler.engine.state.bookings import Bookings
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.records import ASKED, ASSUMED, BOUND, GROUPED, PLACED_STATES, PREPARING, QUEUED, GuestRecord
from hostler.engine.state.reservations import RESERVATION
from hostler.engine.state.state import State
from hostler.engine.tenancy_facts import TenancyFacts
from hostler.errors import FactError, HostlerError, InputError
from hostler.model import (
    Answered,
    BindFailed,
    Event,
    EvictFailed,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestFailed,
    GuestLeft,
    GuestNominated,
    GuestsArrived,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    Policy,
    PolicyChanged,
    Prepared,
)
from hostler.model.decisions import DecisionNote
from hostler.model.notes import (
    BIND_FAILED,
    DECIDING_FAILED,
    GANG_LOST_MEMBER,
    NO_USABLE_ANSWER,
    NOT_PREPARED,
)

__all__ = ["Facts", "check_time"]


def check_time(now: int) -> None:
    """Reject a time that is not a whole number of nanoseconds in 64 bits."""
    if type(now) is not int or not -(2**63) <= now < 2**62:
        raise FactError(f"{now!r} is not a time in nanoseconds")


class Facts:
    """Applies events to the state."""

    def __init__(self, state: State, evictions: Evictions) -> None:
        self._state = state
        self._evictions = evictions
        self._gang_queue = GangQueue(state)
        self._bookings = Bookings(state)
        self._handlers: dict[type, Callable[[Any], None]] = {
            HostJoined: lambda e: self._host(e.host),
            HostChanged: lambda e: self._host(e.host),
            HostsJoined: self._hosts_joined,
            HostLeft: self._host_left,
            GuestArrived: lambda e: self._guest(e.guest),
            GuestChanged: lambda e: self._guest(e.guest),
            GuestsArrived: self._guests_arrived,
            GuestLeft: self._guest_left,
            GuestBound: self._guest_bound,
            BindFailed: self._bind_failed,
            Answered: self._answered,
            Prepared: self._prepared,
            PolicyChanged: self._policy_changed,
            EvictFailed: self._evict_failed,
            GuestFailed: self._guest_failed,
            GuestNominated: self._guest_nominated,
            **TenancyFacts(state, evictions, self._gang_queue, self._bookings.reservations).handlers,
        }

    def apply(self, event: Event) -> None:
        """Apply one fact."""
        handler = self._handlers.get(type(event))
        if handler is None:
            raise FactError(f"{type(event).__name__} is not an event")
        check_time(event.at)
        check_event(event)
        state = self._state
        before = (state.now, state.has_shifted, len(state.moved))
        state.shapes.fresh.clear()
        state.now = max(state.now, event.at)
        try:
            handler(event)
        except HostlerError:
            state.now, state.has_shifted, moved = before
            while len(state.moved) > moved:
                state.moved.popitem()
            state.forget_shapes()
            raise

    # -- hosts -----------------------------------------------------------------------------------------------------

    def _is_news(self, host: Host) -> bool:
        """Say whether a fact about a host is newer than the known one; reject a contradiction."""
        state = self._state
        row = state.cluster.row_of.get(host.name)
        if row is None:
            left_at = state.left_hosts.get(host.uid or host.name)
            return left_at is None or not host.version or host.version > left_at
        known = state.cluster.host(row)
        if host == known:
            return False
        if host.uid != known.uid or not host.version:
            return host.uid == known.uid or host.uid not in state.left_hosts
        if host.version == known.version:
            raise FactError(
                f"two different facts about host {host.name!r} have version {host.version}",
                hint="raise the version with every change",
            )
        return host.version > known.version

    def _host(self, host: Host) -> None:
        if not self._is_news(host):
            return
        state = self._state
        state.cluster.check(host)
        known = state.cluster.row_of.get(host.name)
        before = None if known is None else state.cluster.host(known)
        row = state.cluster.put(host)
        state.renumber()
        self._after_put(host, before, row)

    def _hosts_joined(self, event: HostsJoined) -> None:
        state = self._state
        if len({host.name for host in event.hosts}) < len(event.hosts):
            raise FactError("two hosts of one fact share a name")
        fresh = [host for host in event.hosts if self._is_news(host)]
        known = {
            h.name: state.cluster.host(state.cluster.row_of[h.name]) for h in fresh if h.name in state.cluster.row_of
        }
        state.cluster.put_many(fresh)
        state.renumber()
        for host in fresh:
            self._after_put(host, known.get(host.name), state.cluster.row_of[host.name])

    def _after_put(self, host: Host, before: Host | None, row: int) -> None:
        """Update guests and the queue after a host was put into a row: bookings, and waiting guests it may help."""
        state = self._state
        state.left_hosts.pop(host.uid or host.name, None)
        self._bookings.reservations.refresh_row(row)
        if before is None or _is_wider(before, host):
            state.widened_rows.add(row)
        if before is None:
            state.note_improvement(row)
            for uid in sorted(state.parked.pop(host.name, ())):
                self._bookings.unpark(uid, row)
            return
        if before.uid != host.uid:
            state.remember_left_host(before.uid or before.name, before.version)
        state.note_improvement(row)
        if before.devices != host.devices:
            self._bookings.rebook_devices(row)

    def _host_left(self, event: HostLeft) -> None:
        state = self._state
        row = state.cluster.row_of.get(event.name)
        if row is None or (event.uid and event.uid != state.cluster.host(row).uid):
            if event.version:
                state.remember_left_host(event.uid or event.name, event.version)
            return
        known = state.cluster.host(row)
        guests = state.cluster.remove(event.name)
        state.renumber()
        state.improved_rows.discard(row)
        state.widened_rows.discard(row)
        state.has_shifted = True
        for uid in [uid for uid, nomination in state.nominations.items() if nomination.host == event.name]:
            self._evictions.give_up(uid)
        for uid in [uid for uid, move in state.moves.items() if move.host == event.name and not move.replacement]:
            self._evictions.fail_move(uid)
        if guests:
            state.parked.setdefault(event.name, set()).update(guests)
        state.remember_left_host(known.uid or known.name, max(known.version, event.version))

    # -- guests ----------------------------------------------------------------------------------------------------

    def _guest(self, guest: Guest) -> None:
        state = self._state
        if not guest.uid or not guest.name:
            raise FactError("a guest has no name or no uid")
        if guest.uid.startswith((GANG, RESERVATION)):
            raise FactError(f"the uid {guest.uid!r} begins with a word that is kept for gangs and reservations")
        if guest.uid in state.left_guests:
            return
        record = state.guests.get(guest.uid)
        if record is None:
            self._new_guest(guest)
            return
        known = record.guest
        if guest == known or (guest.version and guest.version < known.version):
            return
        if guest.version and guest.version == known.version:
            raise FactError(
                f"two different facts about guest {guest.name!r} have version {guest.version}",
                hint="raise the version with every change",
            )
        self._changed_guest(record, guest)

    def _new_guest(self, guest: Guest) -> None:
        state = self._state
        guest, number = self._intern(guest)
        self._enter(guest, number, state.profiles.number(guest.spec.policy))

    def _intern(self, guest: Guest) -> tuple[Guest, int]:
        """Return the guest with the spec of its shape, and the shape's number."""
        spec, number = self._state.shapes.intern(guest.spec)
        return guest if guest.spec is spec else msgspec.structs.replace(guest, spec=spec), number

    def _enter(self, guest: Guest, shape: int, policy: int) -> None:
        """Queue a new guest, or book it on the host where it runs."""
        state = self._state
        if guest.host:
            record = GuestRecord(guest, shape, BOUND, state.arrivals + 1, guest.host, guest.on_devices)
            self._bookings.settle(record, state.shapes.shapes[shape])
            note_replacement(state, guest)
            state.arrivals += 1
            self._join_gang(guest)
            return
        state.arrivals += 1
        if guest.gang:
            state.put_guest(GuestRecord(guest, shape, GROUPED, state.arrivals))
            self._join_gang(guest)
            return
        state.put_guest(GuestRecord(guest, shape, QUEUED, state.arrivals))
        state.queue.activate(guest.uid, guest.spec.priority, state.arrivals, (shape, policy))

    def _join_gang(self, guest: Guest) -> None:
        if guest.gang:
            self._state.gangs.enter(guest.gang, guest.uid)
            self._rehold_gang(guest.gang)
            if guest.host:
                self._gang_queue.consider(guest.gang)
            else:
                self._gang_queue.add_pending(guest.gang, guest.spec.priority)

    def _guests_arrived(self, event: GuestsArrived) -> None:
        state = self._state
        count = len(event.names)
        uids = event.uids or event.names
        hosts = event.hosts or ("",) * count
        keys: tuple[int | None, ...] = event.draw_keys or (None,) * count
        if not len(uids) == len(hosts) == len(event.spec_of) == len(keys) == count:
            raise FactError("the columns of guests_arrived differ in length")
        if len(set(uids)) < count or not all(uids) or not all(event.names):
            raise FactError("guests_arrived has an empty or repeated uid")
        if any(uid.startswith((GANG, RESERVATION)) for uid in uids):
            raise FactError("a uid of guests_arrived begins with a word that is kept for gangs and reservations")
        if any(not 0 <= s < len(event.specs) for s in event.spec_of):
            raise FactError("guests_arrived names a spec that it does not carry")
        known = [(*state.shapes.intern(spec), state.profiles.number(spec.policy)) for spec in event.specs]
        entered: list[str] = []
        before = (state.arrivals, state.improved_rows.copy(), state.queue.stamp, state.quota_freed)
        try:
            for name, uid, spec_at, host, draw_key in zip(event.names, uids, event.spec_of, hosts, keys, strict=True):
                if uid in state.left_guests:
                    continue
                spec, number, policy = known[spec_at]
                guest = Guest(name=name, uid=uid, spec=spec, host=host, draw_key=draw_key)
                record = state.guests.get(uid)
                if record is None:
                    self._enter(guest, number, policy)
                    entered.append(uid)
                elif record.guest != guest:
                    raise FactError(f"guest {name!r} is known with other facts", hint="send guest_changed instead")
        except FactError:
            for uid in entered:
                self._forget(state.guests[uid])
            state.arrivals, state.improved_rows, state.queue.stamp, state.quota_freed = before
            raise

    def _changed_guest(self, record: GuestRecord, guest: Guest) -> None:
        """Apply a newer fact about a known guest; a fact without a host never unbinds."""
        state = self._state
        if guest.gang != record.guest.gang:
            raise FactError(f"guest {guest.name!r} cannot change its gang", hint="let it leave and arrive again")
        guest, number = self._intern(guest)
        if guest.spec.policy != record.guest.spec.policy:
            state.profiles.number(guest.spec.policy)
        uid = guest.uid
        if uid in state.ordered:
            state.note_budgets_changed()  # other labels, other budgets
        if record.state in PLACED_STATES:
            self._bookings.change(record, guest, number)
            hold_destination(state, uid)
            if guest.gang:
                self._rehold_gang(guest.gang)
                self._gang_queue.watch(guest.gang)  # its end may have been decided
            return
        if guest.host:
            changed = msgspec.structs.replace(
                record,
                guest=guest,
                shape=number,
                state=BOUND,
                host=guest.host,
                devices=guest.on_devices,
                answer=None,
                decided_spec=record.decided_spec or record.guest.spec,
            )
            self._bookings.settle(changed, state.shapes.shapes[number])
            state.queue.remove(uid)
            self._evictions.drop_nomination(uid)
            self._reconsider(guest.gang)
            return
        if guest.spec == record.guest.spec:
            state.guests[uid] = msgspec.structs.replace(record, guest=guest)
            return
        decided = record.decided_spec or record.guest.spec
        pending = GROUPED if guest.gang else QUEUED
        changed = msgspec.structs.replace(
            record, guest=guest, shape=number, state=pending, refusals=0, errors=0, answer=None, decided_spec=decided
        )
        state.put_guest(changed)
        refresh_holds(state, state.gangs.members.get(guest.gang, {uid: None}))
        if guest.gang:
            self._gang_queue.consider(guest.gang)
            return
        key = state.wait_key(state.shapes.shapes[number])
        state.queue.activate(uid, guest.spec.priority, record.arrival, key)

    def _guest_left(self, event: GuestLeft) -> None:
        state = self._state
        record = state.guests.get(event.uid)
        if record is not None:
            self._forget(record)
        state.remember_left_guest(event.uid)

    def _forget(self, record: GuestRecord) -> None:
        """Remove a guest's booking and its queue entry."""
        state = self._state
        uid = record.guest.uid
        if record.state in PLACED_STATES:
            self._bookings.release(record)
            state.turns.forget(record.turn, record.seq)
        state.queue.remove(uid)
        state.ready.pop(uid, None)
        self._evictions.note_left(uid)
        gang = record.guest.gang
        if gang:
            state.gangs.leave(gang, uid)
        state.remove_guest(uid)
        self._reconsider(gang)

    def _rehold_gang(self, key: str) -> None:
        """Update the priority of a gang's held room: the lowest of its members, if the gang has no priority."""
        refresh_holds(self._state, self._state.gangs.members.get(key, ()))

    def _reconsider(self, gang: str) -> None:
        if gang:
            self._rehold_gang(gang)
            self._break_up(gang)
            self._gang_queue.consider(gang)

    def _break_up(self, key: str) -> None:
        """Take back the placed members of a gang below its minimum while all of them are still being prepared."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        placed = [state.guests[uid] for uid in state.gangs.placed(key)]
        if gang is None or len(placed) >= gang.min_count or any(r.state != PREPARING for r in placed):
            return
        for record in placed:
            state.abandoned[record.guest.uid] = record.host
            self.give_back(record, DecisionNote(GANG_LOST_MEMBER, key))

    # -- answers ---------------------------------------------------------------------------------------------------

    def _guest_bound(self, event: GuestBound) -> None:
        state = self._state
        record = state.guests.get(event.uid)
        if record is None:
            return
        if record.host == event.host and record.state in PLACED_STATES:
            state.turns.confirm(record.turn, record.seq)
            state.ready.pop(event.uid, None)
            state.guests[event.uid] = msgspec.structs.replace(record, state=BOUND, errors=0, refusals=0, notes=())
            return
        if record.state in PLACED_STATES:
            self._bookings.move(record, event.host)
            state.turns.forget(record.turn, record.seq)
            state.ready.pop(event.uid, None)
            return
        moved = msgspec.structs.replace(record, state=BOUND, host=event.host, devices=(), answer=None)
        self._bookings.settle(moved, state.shape(record))
        self._evictions.drop_nomination(event.uid)
        state.queue.remove(event.uid)
        self._reconsider(record.guest.gang)

    def _bind_failed(self, event: BindFailed) -> None:
        record = self._state.guests.get(event.uid)
        if record is not None and record.state == ASSUMED and record.host == event.host:
            self.give_back(record, DecisionNote(BIND_FAILED, said=event.reason))

    def _evict_failed(self, event: EvictFailed) -> None:
        state = self._state
        record = state.guests.get(event.uid)
        self._evictions.note_failed(event.uid)
        if record is not None and record.guest.gang:
            self._gang_queue.reschedule_release(record.guest.gang, state.after(state.rules.backoff_max_ns))

    def _guest_failed(self, event: GuestFailed) -> None:
        record = self._state.guests.get(event.uid)
        if record is None or record.state not in (QUEUED, GROUPED):
            return
        note = DecisionNote(DECIDING_FAILED, said=event.reason)
        if record.state == GROUPED:
            self._gang_queue.give_back(record, note)
        else:
            self._bookings.back_off(record, note)

    def _guest_nominated(self, event: GuestNominated) -> None:
        record = self._state.guests.get(event.uid)
        if record is not None and record.state == QUEUED:
            self._evictions.resume(record, event.host)

    def _answered(self, event: Answered) -> None:
        state = self._state
        record = state.guests.get(event.uid)
        if record is None or record.state != ASKED or record.ask != event.ask:
            return
        profile = state.profiles.find(record.guest.spec.policy)
        ask = profile.policy.ask if profile is not None else None
        if event.error and not (ask is not None and ask.ignorable):
            note = DecisionNote(NO_USABLE_ANSWER, said=event.error)
            if record.guest.gang:
                self._gang_queue.give_back(record, note)
            else:
                self._bookings.back_off(record, note)
            return
        answer = msgspec.structs.replace(event, scores=(), refused=()) if event.error else event
        if record.guest.gang:
            self._gang_queue.take_answer(record, answer)
            return
        state.guests[event.uid] = msgspec.structs.replace(record, state=QUEUED, answer=answer)
        state.queue.activate(event.uid, record.guest.spec.priority, record.arrival, state.wait_key(state.shape(record)))

    def time_out(self, record: GuestRecord) -> None:
        """Retry a guest whose answer did not arrive in time."""
        self._answered(Answered(uid=record.guest.uid, ask=record.ask, error="it did not come in time"))

    def _prepared(self, event: Prepared) -> None:
        state = self._state
        record = state.guests.get(event.uid)
        if record is None or record.state != PREPARING or record.host != event.host or event.uid in state.ready:
            return
        if event.error:
            self.give_back(record, DecisionNote(NOT_PREPARED, said=event.error))
        else:
            state.ready[event.uid] = None

    def give_back(self, record: GuestRecord, note: DecisionNote) -> None:
        """Undo a placement that could not be carried out; the guest is retried after a backoff."""
        state = self._state
        self._bookings.release(record)
        state.turns.forget(record.turn, record.seq)
        state.ready.pop(record.guest.uid, None)
        self._evictions.note_gone(record.guest.uid)
        if record.guest.gang:
            self._gang_queue.give_back(record, note)
        else:
            self._bookings.back_off(record, note)

    # -- policies --------------------------------------------------------------------------------------------------

    def _policy_changed(self, event: PolicyChanged) -> None:
        state = self._state
        if not event.wakes and _without_mixes(event.policies) != _without_mixes(state.profiles.policies):
            raise InputError("policies that change in more than their mixes must wake the guests that wait")
        profiles = Profiles(event.policies, state.cluster, state.registry)
        for record in state.guests.values():
            if record.state not in PLACED_STATES:
                profiles.number(record.guest.spec.policy)
        state.tables.check_room(resources_of(profiles.profiles))
        state.use_policies(profiles)
        if not event.wakes:
            return
        state.gangs.searches.positions.clear()  # their verdicts were those of other policies
        for uid, entry in state.queue.in_order():
            key = GANG_KEY if uid.startswith(GANG) else state.wait_key(state.shape(state.guests[uid]))
            state.queue.activate(uid, entry.priority, entry.arrival, key)


def _without_mixes(policies: Sequence[Policy]) -> list[Policy]:
    return [msgspec.structs.replace(policy, mix=()) for policy in policies]


def _is_wider(before: Host, host: Host) -> bool:
    """Say whether a host changed in a property that rejects guests whatever runs there."""
    return (
        (before.cordoned and not host.cordoned)
        or before.capacity != host.capacity
        or before.labels != host.labels
        or before.taints != host.taints
        or (before.overcommit, before.reserve, before.taken) != (host.overcommit, host.reserve, host.taken)
    )
