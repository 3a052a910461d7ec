"""What a restored database must not do: count on from where the backup was made, and believe what it says of VMs.

Agents have seen newer numbers, and take nothing older; and a VM may be on another host by now than the backup says. So
every number that agents compare begins anew at the time of the restore, which lies beyond all that were given before;
the log gets a new identity (``known_heads``), hosts have to register before they count; and each VM that has a host is
marked as of a backup: nobody is ordered anything about it until all hosts have said what they have
(``fleet.restored``). A work of the store, done before anybody serves the database.
"""

from __future__ import annotations

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, bindparam, case, select, update

from hostler.control.store.known_heads import drop_identity
from hostler.control.store.tables import hosts, lease, placements, vms

__all__ = ["OF_A_BACKUP", "WAITS", "begin_anew"]

OF_A_BACKUP = -1
"""Stands for the entry of the log that decided a placement, where the placement comes from a backup."""

WAITS = (
    "restored from a backup: it gets no orders until every host has registered since, or is confirmed dead or deleted, "
    "and no other host has something of it; 'hostler host list' shows who has not registered"
)
"""Why a VM of a backup is left as it is, for people."""


def begin_anew(connection: Connection, now_ms: int) -> None:
    """Let all numbers begin anew at a time; it must be later than any other restore, whatever backup that was of.

    Numbers grow by one with every change of one host or VM, so they stay behind a clock of milliseconds.
    """
    drop_identity(connection)
    connection.execute(update(lease).values(epoch=_beyond(lease.c.epoch, now_ms), holder=""))
    numbers = {"epoch": _beyond(hosts.c.epoch, now_ms), "generation": _beyond(hosts.c.generation, now_ms)}
    connection.execute(update(hosts).values(**numbers, agent="", boot=""))
    renewed = []
    for identity, status in connection.execute(select(vms.c.id, vms.c.status).where(vms.c.deleted_ns.is_(None))):
        generation, new_status = _renewed(status, now_ms)
        renewed.append({"key": identity, "new_generation": generation, "new_status": new_status})
    if renewed:
        numbers = {"generation": bindparam("new_generation"), "status": bindparam("new_status")}
        of_vm = update(vms).where(vms.c.id == bindparam("key"))
        connection.execute(of_vm.values(**numbers, version=vms.c.version + 1), renewed)
        booked = update(placements).where(placements.c.vm == bindparam("key"))
        connection.execute(booked.values(generation=bindparam("new_generation"), seq=OF_A_BACKUP), renewed)


def _beyond(column: Column[int], now_ms: int) -> ColumnElement[int]:
    """Return the next number, or the time where that is later."""
    return case((column + 1 > now_ms, column + 1), else_=now_ms)


def _renewed(status: bytes, now_ms: int) -> tuple[int, bytes]:
    """Return a VM's new generation, and what the store keeps of it with that; what is left out there is 1."""
    vm = msgspec.json.decode(status, type=dict[str, object])
    known = vm.get("generation", 1)
    generation = max(known + 1 if isinstance(known, int) else 0, now_ms)
    vm["generation"] = generation
    for name in ("home", "other"):
        booking = vm.get(name)
        if isinstance(booking, dict):
            vm[name] = {**booking, "generation": generation, "seq": OF_A_BACKUP}
            vm["why"] = WAITS
    return generation, msgspec.json.encode(vm)
