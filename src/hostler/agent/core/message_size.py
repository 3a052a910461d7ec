"""Registrations and reports that keep to REST's limit on bodies, whatever a driver finds. Pure; used by ``process``.

If all that there is to say does not fit into one message, it is cut in this order, and never a VM is silently dropped:

1. What unknown VMs take: the smallest are added up into one entry, so that no room is given away.
2. Names of unknown VMs: some are left out, and the message says how many.
3. Texts of troubles: shortened.
4. VMs: the rest follows in the reports after this one. A registration says how many are still to come, so
   that they are not taken for gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from hostler.agent.core.reports import ReportContent
from hostler.agent.messages import MOST_TAKEN, MOST_VMS, Register, Report, Taken, VmReport, shorten

__all__ = ["LEAST_BYTES", "MOST_BYTES", "fit_registration", "fit_report"]

T = TypeVar("T")

MOST_BYTES = 1 << 20  # that REST takes of a body
LEAST_BYTES = 1 << 16  # no server or proxy is asked to take less than this
_SPARE = 256  # numbers that grow when something is left out
_SHORT_TEXT = 120  # characters of a trouble's text where there is not room for all of it
_OTHERS = "others"  # stands for the VMs whose shares were added up
_encode = msgspec.json.encode
_replace = msgspec.structs.replace


def fit_registration(
    message: Register, content: ReportContent, most: int = MOST_BYTES
) -> tuple[Register, ReportContent]:
    """Return a registration of at most ``most`` bytes, and what it says; later reports say the rest."""
    room = most - _SPARE - _size(_replace(message, vms=(), unknown=(), taken=()))
    taken = _summed_taken(message.taken, room // 4)
    room -= _size_of(taken)
    unknown = _first(message.unknown, max(room // 4, 0))
    room -= _size_of(unknown)
    vms = _fitting_vms(message.vms, room)
    fitted = _replace(
        message,
        vms=vms,
        unknown=unknown,
        taken=taken,
        vms_left_out=len(message.vms) - len(vms),
        unknown_left_out=message.unknown_left_out + len(message.unknown) - len(unknown),
    )
    return fitted, _replace(content, vms={report.vm: content.vms[report.vm] for report in vms}, gone=())


def fit_report(
    message: Report, told: ReportContent, content: ReportContent, most: int = MOST_BYTES
) -> tuple[Report, ReportContent]:
    """Return a report of at most ``most`` bytes, and what is left for the next report."""
    empty = _replace(message, vms=(), gone=(), departed=(), unknown=None, taken=None)
    room = most - _SPARE - _size(empty)
    taken = message.taken if message.taken is None else _summed_taken(message.taken, room // 4)
    room -= _size_of(taken or ())
    unknown = message.unknown if message.unknown is None else _first(message.unknown, max(room // 4, 0))
    room -= _size_of(unknown or ())
    departed = _first(message.departed, room // 3)  # its names are told twice
    gone = tuple(one.vm for one in departed)
    room -= _size_of(departed) + _size_of(gone)
    vms = _fitting_vms(message.vms, room)
    left_out = 0 if message.unknown is None or unknown is None else len(message.unknown) - len(unknown)
    fitted = _replace(
        message,
        vms=vms,
        gone=gone,
        departed=departed,
        unknown=unknown,
        taken=taken,
        unknown_left_out=message.unknown_left_out + left_out,
    )
    return fitted, _told_after(fitted, told, content)


def _told_after(message: Report, told: ReportContent, content: ReportContent) -> ReportContent:
    """Return what the control plane knows once it has answered a report."""
    left = {one.vm for one in message.departed}
    vms = {vm: report for vm, report in told.vms.items() if vm not in left}
    vms |= {report.vm: content.vms[report.vm] for report in message.vms if report.vm in content.vms}
    known = {*message.departed, *told.gone}
    gone = tuple(one for one in content.gone if one in known and one.vm not in vms)
    return _replace(content, vms={vm: vms[vm] for vm in content.vms if vm in vms} | _rest(vms, content), gone=gone)


def _rest(vms: dict[str, VmReport], content: ReportContent) -> dict[str, VmReport]:
    """Return VMs that were reported, are gone, and whose departure was not reported yet."""
    return {vm: report for vm, report in vms.items() if vm not in content.vms}


def _fitting_vms(vms: Sequence[VmReport], room: int) -> tuple[VmReport, ...]:
    """Return as many VM reports as fit, with shortened problem texts if necessary."""
    if len(vms) <= MOST_VMS and _size_of(vms) <= room:
        return tuple(vms)
    return _first([_short(report) for report in vms[:MOST_VMS]], room)


def _short(report: VmReport) -> VmReport:
    trouble = report.trouble
    if trouble is None:
        return report
    message, hint = shorten(trouble.message, _SHORT_TEXT), shorten(trouble.hint, _SHORT_TEXT)
    return _replace(report, trouble=_replace(trouble, message=message, hint=hint))


def _summed_taken(taken: Sequence[Taken], room: int) -> tuple[Taken, ...]:
    """Return what VMs take, with the smallest added up if there is no room for each."""
    if len(taken) <= MOST_VMS and _size_of(taken) <= room:
        return tuple(taken)
    largest = sorted(taken, key=lambda one: (one.cpu_millis, one.memory_bytes, one.disk_bytes, one.vm), reverse=True)
    told = _first(largest[: MOST_VMS - 1], room - _SPARE)
    rest = largest[len(told) :]
    others = Taken(
        vm=_OTHERS,
        cpu_millis=_sum(one.cpu_millis for one in rest),
        memory_bytes=_sum(one.memory_bytes for one in rest),
        disk_bytes=_sum(one.disk_bytes for one in rest),
    )
    return (*told, others)


def _first(things: Sequence[T], room: int) -> tuple[T, ...]:
    """Return as many of the first items as fit."""
    found: list[T] = []
    for one in things:
        room -= _size(one) + 1
        if room < 0:
            break
        found.append(one)
    return tuple(found)


def _size_of(things: Iterable[object]) -> int:
    return sum(_size(one) + 1 for one in things)


def _size(thing: object) -> int:
    return len(_encode(thing))


def _sum(amounts: Iterable[int]) -> int:
    return min(sum(amounts), MOST_TAKEN)
