"""What an agent has to say, and the difference between that and what was answered: a report. Pure."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Departed, Report, Taken, Tries, UnavailableStorage, VmReport

__all__ = ["Telling", "difference"]


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is to say of a host at one moment."""

    version: int = 0
    vms: dict[str, VmReport] = {}
    gone: tuple[Departed, ...] = ()
    unknown: tuple[str, ...] = ()
    unknown_left_out: int = 0
    taken: tuple[Taken, ...] = ()
    refused_teardown: int = 0
    unavailable: tuple[UnavailableStorage, ...] = ()  # told by a registration only: it changes what a host can take


def difference(
    told: Telling,
    now: Telling,
    *,
    boot: str,
    agent: str,
    epoch: int,
    sequence: int,
    watched_vms: int = 0,
    tries: Tries | None = None,
) -> Report:
    """Return the report that brings whoever knows ``told`` to ``now``."""
    departed = _departed(told, now)
    return Report(
        boot=boot,
        agent=agent,
        epoch=epoch,
        sequence=sequence,
        orders=now.version,
        vms=tuple(report for vm, report in now.vms.items() if told.vms.get(vm) != report),
        gone=tuple(one.vm for one in departed),
        departed=departed,
        unknown=now.unknown if _unknown(now) != _unknown(told) else None,
        unknown_left_out=now.unknown_left_out,
        taken=now.taken if now.taken != told.taken else None,
        refused_teardown=now.refused_teardown,
        is_watched=watched_vms > 0,
        watched_vms=watched_vms,
        tries=tries,
    )


def _unknown(telling: Telling) -> tuple[tuple[str, ...], int]:
    return telling.unknown, telling.unknown_left_out


def _departed(told: Telling, now: Telling) -> tuple[Departed, ...]:
    """Return the VMs that departed since: by an order that was not told yet, or known no more."""
    found = {vm: Departed(vm=vm, generation=one.generation) for vm, one in told.vms.items() if vm not in now.vms}
    known = set(told.gone)
    found |= {one.vm: one for one in now.gone if one not in known or one.vm in told.vms}
    return tuple(one for _, one in sorted(found.items()))
