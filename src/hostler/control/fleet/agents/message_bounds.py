"""Limits of agents' messages: texts for people are cut, and absurd values are rejected. Pure.

Our agents keep the limits of ``hostler.agent.messages`` themselves, so a rejected message comes from another program or
an attacker. The structs of messages are stored in the database too, where earlier values must stay readable. So the
limits are in these functions and not in the structs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.agent.messages import (
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_VMS,
    HostSize,
    Register,
    Report,
    Taken,
    Tries,
    UnavailableStorage,
    VmReport,
    shorten_trouble,
)
from hostler.control.fleet.errors import MessageBoundsError
from hostler.control.fleet.hosts.host_body import check_registration

__all__ = ["bound_registration", "bound_report"]

_MOST_LABELS, _MOST_PROTOCOLS = 64, 64
_MOST_STORAGES = 65  # all that a host may name, and the place of local disks
# Kinds and models of devices of one host. The engine holds 1,024 kinds and 16,384 models of all hosts, so one host with
# invented names cannot use up what others need. Real hosts have a handful.
_MOST_DEVICE_NAMES = 16
_LARGEST = 2**63 - 1  # that a database counts to
_replace = msgspec.structs.replace


def bound_registration(message: Register) -> Register:
    """Return a registration within limits; MessageBoundsError, or InputError for invalid values."""
    for place in ("boot", "agent", "version", "driver"):
        _check_name(place, getattr(message, place))
        _check_plain(place, getattr(message, place))
    _check_count("labels", message.labels, _MOST_LABELS)
    _check_count("protocols", message.protocols, _MOST_PROTOCOLS)
    for place in ("sequence", "watched_vms", "vms_left_out", "unknown_left_out"):
        _check_number(place, getattr(message, place))
    for protocol in message.protocols:
        _check_number("protocols", protocol)
    _check_devices(message.size)
    _check_names("unknown", message.unknown)
    _check_taken(message.taken)
    _check_unavailable(message.unavailable)
    check_registration(message)
    return _replace(message, vms=_bounded_vms(message.vms))


def bound_report(message: Report) -> Report:
    """Return a report within limits; MessageBoundsError."""
    for place in ("boot", "agent"):
        _check_name(place, getattr(message, place))
    for place in ("epoch", "sequence", "orders", "refused_teardown", "watched_vms", "unknown_left_out"):
        _check_number(place, getattr(message, place))
    _check_names("gone", message.gone)
    _check_names("departed", [one.vm for one in message.departed])
    for one in message.departed:
        _check_number("departed.generation", one.generation)
    _check_names("unknown", message.unknown or ())
    _check_taken(message.taken or ())
    if message.size is not None:
        _check_devices(message.size)
    if message.tries is not None:
        for place in Tries.__struct_fields__:
            _check_number(f"tries.{place}", getattr(message.tries, place))
    return _replace(message, vms=_bounded_vms(message.vms)) if message.vms else message


def _bounded_vms(vms: tuple[VmReport, ...]) -> tuple[VmReport, ...]:
    _check_names("vms", [report.vm for report in vms])
    return tuple(_bounded_vm(report) for report in vms)


def _bounded_vm(report: VmReport) -> VmReport:
    for place in ("generation", "restarts", "failed_generation"):
        _check_number(f"vms.{place}", getattr(report, place))
    for place in ("landing_address", "landing_secret"):
        _check_name(f"vms.{place}", getattr(report, place), most=LONGEST_TEXT)
    if report.trouble is None:
        return report
    _check_name("vms.trouble.code", report.trouble.code)
    _check_number("vms.trouble.failures", report.trouble.failures)
    return _replace(report, trouble=shorten_trouble(report.trouble))


def _check_devices(size: HostSize) -> None:
    for place, names in (
        ("size.devices.kind", {device.kind for device in size.devices}),
        ("size.devices.model", {device.model for device in size.devices}),
    ):
        if len(names) > _MOST_DEVICE_NAMES:
            hint = f"a host names at most {_MOST_DEVICE_NAMES}"
            raise MessageBoundsError(f"{place}: {len(names)} different ones", hint=hint)
    for device in size.devices:
        _check_name("size.devices.kind", device.kind)
        _check_name("size.devices.model", device.model)


def _check_taken(taken: Sequence[Taken]) -> None:
    _check_names("taken", [one.vm for one in taken])
    for one in taken:
        for place in ("cpu_millis", "memory_bytes", "disk_bytes"):
            _check_number(f"taken.{place}", getattr(one, place))


def _check_unavailable(unavailable: Sequence[UnavailableStorage]) -> None:
    _check_count("unavailable", unavailable, _MOST_STORAGES)
    for one in unavailable:
        _check_name("unavailable.name", one.name)
        _check_name("unavailable.why", one.why, most=LONGEST_TEXT)


def _check_names(place: str, names: Sequence[str]) -> None:
    _check_count(place, names, MOST_VMS)
    for name in names:
        _check_name(place, name)


def _check_count(place: str, things: Sequence[object], most: int) -> None:
    if len(things) > most:
        raise MessageBoundsError(f"{place}: {len(things)} of them", hint=f"at most {most} are taken")


def _check_name(place: str, name: str, *, most: int = LONGEST_NAME) -> None:
    if len(name) > most:
        hint = f"at most {most} characters are taken"
        raise MessageBoundsError(f"{place}: {name[:40]!r}… has {len(name)} characters", hint=hint)
    if "\0" in name:  # which not every database keeps
        raise MessageBoundsError(f"{place}: {name[:40]!r} has a NUL", hint="send plain text")


def _check_plain(place: str, name: str) -> None:
    """Reject characters that no database, label or log line accepts in an agent's names."""
    if not name.isprintable():
        raise MessageBoundsError(f"{place}: {name[:40]!r} has control characters", hint="send plain text")


def _check_number(place: str, number: int) -> None:
    if not 0 <= number <= _LARGEST:
        raise MessageBoundsError(f"{place}: it is out of range", hint="0 to 2^63 - 1")
