"""Bookings of placed guests: settle, move, change, release, park. The only code that books outside a kernel run."""

from __future__ import annotations

import msgspec

from hostler.engine.cluster.randomness import BACKOFF, draw, guest_key
from hostler.engine.cluster.shapes import Shape
from hostler.engine.state.records import BOUND, QUEUED, GuestRecord
from hostler.engine.state.reservations import Reservations
from hostler.engine.state.state import State
from hostler.errors import FactError
from hostler.model import Guest
from hostler.model.decisions import DecisionNote

__all__ = ["Bookings"]


class Bookings:
    """Keeps host columns, guests by host, and parked guests in step with the records."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.reservations = Reservations(state)

    def settle(self, record: GuestRecord, shape: Shape, *, strict: bool = True) -> None:
        """Book a guest that runs on ``record.host`` according to a fact; park it while that host is absent."""
        state = self._state
        row = state.cluster.row_of.get(record.host)
        uid = record.guest.uid
        if row is None:
            state.parked.setdefault(record.host, set()).add(uid)
            state.put_guest(record)
            state.quotas.shift(record.guest.spec, 1)
            return
        why = state.cluster.why_not_book(row, shape)
        if why is not None:
            raise FactError(f"guest {record.guest.name!r} cannot be booked on {record.host!r}: {why}")
        devices = self._devices(row, shape, record, strict=strict)
        state.cluster.book(row, shape, devices, uid)
        state.note_move(shape)
        state.put_guest(msgspec.structs.replace(record, devices=devices))
        state.quotas.shift(record.guest.spec, 1)
        self.reservations.refresh_row(row)

    def unpark(self, uid: str, row: int) -> None:
        """Book a parked guest whose host is back."""
        state = self._state
        record = state.guests[uid]
        shape = state.shape(record)
        if state.cluster.why_not_book(row, shape) is not None:
            state.parked.setdefault(record.host, set()).add(uid)
            return
        devices = self._devices(row, shape, record, strict=False)
        state.cluster.book(row, shape, devices, uid)
        state.note_move(shape)
        state.guests[uid] = msgspec.structs.replace(record, devices=devices)
        self.reservations.refresh_row(row)

    def release(self, record: GuestRecord) -> None:
        """Release what a placed guest uses."""
        state = self._state
        uid = record.guest.uid
        state.quotas.shift(record.guest.spec, -1)
        state.quota_freed = state.quota_freed or state.quotas.concerns(record.guest.spec)
        parked = state.parked.get(record.host)
        if parked is not None and uid in parked:
            parked.discard(uid)
            if not parked:
                del state.parked[record.host]
            return
        row = state.cluster.row_of[record.host]
        shape = state.shape(record)
        state.cluster.unbook(row, shape, record.devices, uid)
        self.reservations.refresh_row(row)
        state.note_improvement(row, shape)

    def move(self, record: GuestRecord, host: str) -> None:
        """Book a placed guest on another host, because another scheduler or an operator bound it there."""
        moved = msgspec.structs.replace(record, state=BOUND, host=host, devices=record.guest.on_devices)
        self._swap(record, moved)

    def change(self, record: GuestRecord, guest: Guest, shape: int) -> None:
        """Apply a newer fact about a placed guest: another spec, another host, or a confirmation."""
        host = guest.host or record.host
        keeps_devices = host == record.host and guest.spec.devices == record.guest.spec.devices
        devices = guest.on_devices or (record.devices if keeps_devices else ())
        state = BOUND if guest.host else record.state
        decided = record.decided_spec or (record.guest.spec if guest.spec != record.guest.spec else None)
        changed = msgspec.structs.replace(
            record, guest=guest, shape=shape, state=state, host=host, devices=devices, decided_spec=decided
        )
        if (shape, host, devices) == (record.shape, record.host, record.devices):
            self._keep_booking(record, changed)
        else:
            self._swap(record, changed, strict=bool(guest.on_devices))
        if guest.host:
            self._state.ready.pop(guest.uid, None)
            if host == record.host:
                self._state.turns.confirm(record.turn, record.seq)
            else:
                self._state.turns.forget(record.turn, record.seq)

    def _keep_booking(self, before: GuestRecord, after: GuestRecord) -> None:
        """Apply a fact that changes no amounts: no guest is woken, but the youngest victim may change."""
        state = self._state
        state.guests[after.guest.uid] = after
        row = state.cluster.row_of.get(after.host)
        if row is not None and before.guest.started != after.guest.started:
            state.cluster.touch(row)

    def _swap(self, before: GuestRecord, after: GuestRecord, *, strict: bool = True) -> None:
        """Replace one booking by another, or reject the fact and leave everything unchanged."""
        state = self._state
        improved, was_parked, freed = state.improved_rows.copy(), state.is_parked(before), state.quota_freed
        self.release(before)
        try:
            self.settle(after, state.shape(after), strict=strict)
        except FactError:
            self._put_back(before, was_parked=was_parked)
            state.improved_rows, state.quota_freed = improved, freed
            raise
        if self._holds_as_much(before, after):
            state.improved_rows = improved  # those who look at other guests are told by ``moved``

    def _holds_as_much(self, before: GuestRecord, after: GuestRecord) -> bool:
        """Say whether a changed guest frees no room, for example one that is only asked to leave."""
        state = self._state
        old, new = before.guest.spec, after.guest.spec
        return (
            before.host == after.host
            and not state.is_parked(before)
            and state.shape(before).amounts == state.shape(after).amounts
            and (old.devices, old.ports) == (new.devices, new.ports)
        )

    def _put_back(self, record: GuestRecord, *, was_parked: bool) -> None:
        """Book a guest exactly as before, with its former devices."""
        state = self._state
        state.quotas.shift(record.guest.spec, 1)
        if was_parked:
            state.parked.setdefault(record.host, set()).add(record.guest.uid)
            return
        row = state.cluster.row_of[record.host]
        state.cluster.book(row, state.shape(record), record.devices, record.guest.uid)
        self.reservations.refresh_row(row)

    def rebook_devices(self, row: int) -> None:
        """Book devices again after a host's devices changed."""
        state = self._state
        records = (state.guests[uid] for uid in state.cluster.guests_on[row])
        state.cluster.rebook_devices(row, [(state.shape(r), r.devices) for r in records])

    def back_off(self, record: GuestRecord, note: DecisionNote) -> None:
        """Queue a guest again after something outside failed."""
        state = self._state
        errors = record.errors + 1
        waiting = msgspec.structs.replace(
            record, state=QUEUED, host="", devices=(), errors=errors, answer=None, notes=(note,), total=None
        )
        state.guests[record.guest.uid] = waiting
        until = state.after(self.backoff(waiting, errors))
        key = state.wait_key(state.shape(record))
        state.queue.back_off(record.guest.uid, record.guest.spec.priority, record.arrival, key, until)

    def backoff(self, record: GuestRecord, failures: int) -> int:
        """Return min(initial * 2^(n-1), max), plus a jitter drawn for this guest and attempt."""
        rules = self._state.rules
        base = min(rules.backoff_initial_ns << min(failures - 1, 40), rules.backoff_max_ns)
        roll = draw(self._state.seed, guest_key(record.guest), record.attempts, BACKOFF)
        return base + base * rules.jitter_percent * (roll % 1024) // (100 * 1024)

    def _devices(self, row: int, shape: Shape, record: GuestRecord, *, strict: bool = True) -> tuple[int, ...]:
        """Return the devices of a guest according to a fact; if it names none, those that the policy would choose."""
        if not shape.asks:
            return ()
        host = self._state.cluster.host(row)
        wanted = record.devices
        if wanted:
            kinds = [d.kind for d in shape.spec.devices for _ in range(d.count)]
            fits = len(wanted) == len(kinds) and all(
                0 <= at < len(host.devices) and host.devices[at].kind == kind
                for at, kind in zip(wanted, kinds, strict=False)
            )
            if fits:
                return wanted
            if strict:
                raise FactError(f"guest {record.guest.name!r} names devices that host {host.name!r} does not have")
        slot = self._state.cache.slot(shape, max(self._state.wait_key(shape)[1], 0))
        chosen = self._state.cache.choose_devices(slot, row, 0, shape.device_count)
        return chosen or self._roomiest(row, shape)

    def _roomiest(self, row: int, shape: Shape) -> tuple[int, ...]:
        """Return the devices with the most free units, for a guest that runs although it does not fit."""
        host = self._state.cluster.host(row)
        left = self._state.cluster.device_left(row)
        taken: list[int] = []
        for device in shape.spec.devices:
            of_kind = [at for at, d in enumerate(host.devices) if d.kind == device.kind]
            chosen = sorted(of_kind, key=lambda at: (-left[at], at))[: device.count]
            if len(chosen) < device.count:
                return ()
            for at in chosen:
                left[at] -= device.milli
            taken.extend(chosen)
        return tuple(taken)
