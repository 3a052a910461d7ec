"""Renumbers a restored database, so that agents accept it and VMs do not run twice.

Agents have seen newer numbers than the backup has, and accept nothing older. A VM may be on another host by now. So
every number that agents compare begins again at the time of the restore, which lies beyond all earlier numbers. The log
gets a new identity (``history.known_heads``). Hosts must register before they count. Each VM on a host is marked as
restored: it gets no orders until all hosts have reported what they have (``fleet.hosts.restored_vms``). A work of the
store, done before the database is served.
"""

from __future__ import annotations

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, bindparam, case, select, update

from hostler.control.store.history.known_heads import renew_identity
from hostler.control.store.tables import hosts, lease, placements, vms

__all__ = ["OF_A_BACKUP", "WAITS", "renumber_database"]

OF_A_BACKUP = -1
"""Stands for the entry of the log that decided a placement, where the placement comes from a backup."""

WAITS = (
    "restored from a backup: it gets no orders until every host has registered since, or is confirmed dead or deleted, "
    "and no other host has something of it; 'hostler host list' shows who has not registered"
)
"""Why a VM of a backup is left as it is, for people."""


def renumber_database(connection: Connection, now_ms: int) -> None:
    """Let all numbers begin at this time; it must be later than any other restore.

    Numbers grow by one with every change of one host or VM, so they stay behind a clock of milliseconds.
    """
    renew_identity(connection)
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
    """Return the next number, or the time if that is later."""
    return case((column + 1 > now_ms, column + 1), else_=now_ms)


def _renewed(status: bytes, now_ms: int) -> tuple[int, bytes]:
    """Return a VM's new generation, and its stored fields that follow from it; omitted fields are 1."""
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
