"""What an agent has to say, and the difference between that and what was answered: a report. Pure."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Departed, Report, Taken, Tries, VmReport

__all__ = ["Telling", "difference"]


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is to say of a host at one moment."""

    version: int = 0
    vms: dict[str, VmReport] = {}
    gone: tuple[Departed, ...] = ()
    unknown: tuple[str, ...] = ()
    taken: tuple[Taken, ...] = ()
    refused_teardown: int = 0


def difference(
    told: Telling,
    now: Telling,
    *,
    boot: str,
    agent: str,
    epoch: int,
    sequence: int,
    is_watched: bool = False,
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
        unknown=now.unknown if now.unknown != told.unknown else None,
        taken=now.taken if now.taken != told.taken else None,
        refused_teardown=now.refused_teardown,
        is_watched=is_watched,
        tries=tries,
    )


def _departed(told: Telling, now: Telling) -> tuple[Departed, ...]:
    """Return the VMs that departed since: by an order that was not told yet, or known no more."""
    found = {vm: Departed(vm=vm, generation=one.generation) for vm, one in told.vms.items() if vm not in now.vms}
    found |= {one.vm: one for one in now.gone if one not in told.gone or one.vm in told.vms}
    return tuple(one for _, one in sorted(found.items()))
