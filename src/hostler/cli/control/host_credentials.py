"""``hostler host rotate`` and ``revoke``: what the agents of hosts show themselves with."""

from __future__ import annotations

import click

from hostler.cli.control.asking import confirm, yes_option
from hostler.cli.control.connecting import There, complete_host, connects_fleet_wide
from hostler.cli.control.host_show import host_state
from hostler.cli.control.several_hosts import check_all_there
from hostler.cli.options import examples
from hostler.cli.terminal import note, printable, say

__all__ = ["revoke", "rotate"]


@click.command(epilog=examples("hostler host rotate node-3"), short_help="Give the agents of hosts a new credential.")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
@connects_fleet_wide
def rotate(there: There, hosts: tuple[str, ...]) -> None:
    """Give the agents of hosts a new credential, which each gets and keeps by itself at its next heartbeat.

    The old one is good until 5 minutes after the new one was used first. If somebody else may have it, revoke it.
    """
    with there.open() as client:
        check_all_there(client, hosts)
        for host in hosts:
            found = client.hosts.rotate_credential(host)
            say(printable(f"{found.name}: gets a new credential at its next heartbeat"))


@click.command(epilog=examples("hostler host revoke node-3"), short_help="Lock the agents of hosts out.")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
@yes_option()
@connects_fleet_wide
def revoke(there: There, hosts: tuple[str, ...], yes: bool) -> None:
    """Make the credentials of hosts' agents useless, at once; on a terminal you are asked first.

    Their VMs run on, and the hosts count as offline until an agent joins again, with a new token for that host.
    """
    confirm(f"Lock the agents of {', '.join(hosts)} out?", is_sure=yes)
    with there.open() as client:
        check_all_there(client, hosts)
        for host in hosts:
            found = client.hosts.revoke_credential(host)
            say(printable(f"{found.name}: {host_state(found)}, its agent is locked out"))
            note(f"to let it join again: (umask 077; hostler token create --host {found.name} > token)")
