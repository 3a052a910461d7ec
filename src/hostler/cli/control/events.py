"""``hostler events``, ``hostler vm events`` and ``hostler host events``: events as tables and as streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import click
import msgspec

from hostler.cli.control.connection import (
    CommandTarget,
    complete_host,
    complete_project,
    complete_vm,
    fleet_target_options,
    target_options,
)
from hostler.cli.control.output import Field, output, show_list
from hostler.cli.options import examples
from hostler.cli.output.terminal import print_data_line, printable, say

if TYPE_CHECKING:
    from hostler.control.schemas import Event

__all__ = ["events", "host_events", "vm_events", "write_event"]


_FIELDS: list[Field[Event]] = [
    Field("SEQ", lambda event: event.seq, "right"),
    Field("TIME", lambda event: event.at),
    Field("KIND", lambda event: event.kind),
    Field("BY", lambda event: event.by),
    Field("REQUEST", lambda event: event.request_id, is_wide=True),
    Field("WHAT", lambda event: event.text),  # the last: one long text must not push all others out of sight
]


_ALL = [
    *_FIELDS[:2],
    Field("PROJECT", lambda event: event.project),
    Field("ABOUT", lambda event: event.about),
    *_FIELDS[2:],
]


def _event_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose events, and --follow."""
    for option in reversed(
        (
            click.option(
                "--since", metavar="TIME", default="", help="Only since then: 10m, 2h, or 2030-01-31T12:00:00Z."
            ),
            click.option(
                "--tail", metavar="N", type=click.IntRange(0, 500), default=None, help="Only the last N events."
            ),
            click.option(
                "--kind",
                "kinds",
                metavar="KIND",
                multiple=True,
                help="Only of this kind, such as vm.placed, or vm for all kinds of VMs; may be repeated.",
            ),
            click.option(
                "--follow",
                is_flag=True,
                help="Follow new events, until interrupted; --since or --tail adds past ones.",
            ),
        )
    ):
        command = option(command)
    return command


class _EventChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of events."""

    since: str = ""
    tail: int | None = None
    kinds: tuple[str, ...] = ()

    @classmethod
    def of(cls, since: str, tail: int | None, kinds: tuple[str, ...]) -> Self:
        """Return the filters of the options; InputError."""
        return cls(since=_start(since) if since else "", tail=tail, kinds=kinds)

    def asked(self) -> dict[str, Any]:
        """Return the arguments for a list."""
        return msgspec.structs.asdict(self)

    def followed(self) -> dict[str, Any]:
        """Return the arguments for a stream, which has past events only on request."""
        return self.asked() | ({} if self.since or self.tail is not None else {"tail": 0})


def _start(text: str) -> str:
    """Return the time of --since: a time, or a duration before now; InputError."""
    from hostler.config import parse_duration
    from hostler.errors import HostlerError, InputError

    try:
        past_ns = parse_duration(text)
    except HostlerError:
        try:
            found = datetime.fromisoformat(text)
            return (found if found.tzinfo is not None else found.astimezone()).isoformat()
        except (ValueError, OverflowError):  # the latter for local times before the year 1 or after 9999
            hint = "write it like 10m, 2h or 2030-01-31T12:00:00Z"
            raise InputError(f"--since: {text[:40]!r} is neither a duration nor a time", hint=hint) from None
    now_s = time.time()  # noqa: TID251 - "10m" is before this moment
    return datetime.fromtimestamp(now_s - past_ns / 1e9, UTC).isoformat()


@click.command(
    epilog=examples(
        "hostler events --since 10m",
        "hostler events --kind host --tail 20",
        "hostler events --in-project team-a --follow",
        "hostler events -o json",
    ),
    short_help="Show the events of a control plane.",
)
@click.option("--in-project", metavar="NAME", default="", shell_complete=complete_project, help="Only of this project.")
@_event_options
@fleet_target_options
@output
def events(
    target: CommandTarget, in_project: str, since: str, tail: int | None, kinds: tuple[str, ...], follow: bool,
    output: str,
) -> None:  # fmt: skip
    """Show the events of hosts, VMs and everything else that the key may read, as far back as the log goes.

    They are in the order of the log (SEQ), and times follow it. 'hostler vm events' shows one VM, 'hostler host events'
    one host.
    """
    chosen = _EventChoice.of(since, tail, kinds)
    with target.open() as client:
        if in_project:
            client.check_project(in_project)
        if not follow:
            past = client.events(project=in_project, **chosen.asked())
            show_list(past, _ALL, output, nothing=_nothing(chosen, "there are no events yet"))
            return
        for event in client.follow(project=in_project, **chosen.followed()):
            _write(event, output)


def _nothing(chosen: _EventChoice, otherwise: str) -> str:
    return "no events match" if chosen != _EventChoice() else otherwise


def _write(event: Event, output: str) -> None:
    """Write an event of a stream, with its subject."""
    is_plain = output not in ("json", "yaml") and event.about not in event.text
    write_event(msgspec.structs.replace(event, text=f"{event.about}: {event.text}") if is_plain else event, output)


@click.command(
    "events",
    epilog=examples(
        "hostler vm events web-0",
        "hostler vm events web-0 --follow",
        "hostler vm events web-0 --since 1h --kind vm.placed",
    ),
    short_help="Show the events of a VM.",
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@_event_options
@target_options
@output
def vm_events(
    target: CommandTarget, vm: str, since: str, tail: int | None, kinds: tuple[str, ...], follow: bool, output: str
) -> None:
    """Show the events of a VM: requests and decisions.

    They are in the order of the log (SEQ), and times follow it.
    """
    chosen = _EventChoice.of(since, tail, kinds)
    with target.open() as client:
        found = client.vms.find(vm, client.target.project)
        if not follow:
            otherwise = f"no events of {found.project}/{found.name} are left"
            past = client.vms.events(found.id, **chosen.asked())
            show_list(past, _FIELDS, output, nothing=_nothing(chosen, otherwise))
            return
        for event in client.follow(project=found.project, subject=found.id, **chosen.followed()):
            write_event(event, output)


@click.command(
    "events",
    epilog=examples("hostler host events node-3", "hostler host events node-3 --follow --tail 5"),
    short_help="Show the events of a host.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@_event_options
@fleet_target_options
@output
def host_events(
    target: CommandTarget, host: str, since: str, tail: int | None, kinds: tuple[str, ...], follow: bool, output: str
) -> None:
    """Show the events of a host: requests, lost and regained contact, and findings.

    They are in the order of the log (SEQ), and times follow it. A deleted host is found by its name until another host
    of that name joins; then by its id.
    """
    chosen = _EventChoice.of(since, tail, kinds)
    with target.open() as client:
        if not follow:
            past = client.events(host=host, **chosen.asked())
            show_list(past, _FIELDS, output, nothing=_nothing(chosen, f"no events of {host} are left"))
            return
        for event in client.follow(host=host, **chosen.followed()):
            write_event(event, output)


def write_event(event: Event, form: str) -> None:
    """Write an event of a stream."""
    if form in ("json", "yaml"):
        print_data_line(event)
    else:
        say(printable(f"{event.at}  {event.kind:<12}  {event.text}{f'  by {event.by}' if event.by else ''}"))
