"""What an agent has to say, and the difference between that and what was answered: a report. Pure."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Report, VmReport

__all__ = ["Telling", "difference"]


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is to say of a host at one moment."""

    version: int = 0
    vms: dict[str, VmReport] = {}
    gone: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    refused_teardown: int = 0


def difference(told: Telling, now: Telling, *, boot: str, agent: str, epoch: int, sequence: int) -> Report:
    """Return the report that brings whoever knows ``told`` to ``now``."""
    dropped = {vm for vm in told.vms if vm not in now.vms}
    return Report(
        boot=boot,
        agent=agent,
        epoch=epoch,
        sequence=sequence,
        orders=now.version,
        vms=tuple(report for vm, report in now.vms.items() if told.vms.get(vm) != report),
        gone=tuple(sorted(dropped | (set(now.gone) - set(told.gone)))),
        unknown=now.unknown if now.unknown != told.unknown else None,
        refused_teardown=now.refused_teardown,
    )
