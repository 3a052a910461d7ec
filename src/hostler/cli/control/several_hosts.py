"""Verbs that take several hosts: all of them are looked up first, and nothing that was done goes unsaid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hostler.cli.control.in_turn import do_in_turn

if TYPE_CHECKING:
    from hostler.control.api.shapes import Host
    from hostler.control.client import Client

__all__ = ["act_on_each", "check_all_there"]


def check_all_there(client: Client, hosts: Sequence[str]) -> None:
    """Refuse names of which one is no host, before anything is done; UnknownThereError."""
    for host in hosts if len(hosts) > 1 else ():
        client.hosts.get(host)


def act_on_each(
    client: Client, hosts: Sequence[str], act: Callable[[str], Host], show: Callable[[list[Host]], None]
) -> list[Host]:
    """Do something to hosts, one after the other; where one is refused, show those that were changed before it."""
    check_all_there(client, hosts)
    return do_in_turn(hosts, act, show)
