"""``hostler dev kill``: stop a simulated host of a running ``hostler dev up``, to see a failure.

The command and the running process share the state folder, which only their user may read. The command writes an empty
file named like the host; the process stops the host and removes the file, which is the answer. No message can be lost:
a file that no one removes means that no process runs there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import click

from hostler.cli.control.local.agent_options import check_host_name
from hostler.cli.options import examples
from hostler.cli.output.terminal import say
from hostler.errors import InputError, UnavailableError

__all__ = ["kill", "stop_killed_hosts"]

_KILLS = "kills"
_LOOK_S = 0.2
_WAIT_S = 10.0


@click.command(
    epilog=examples("hostler dev kill host-03", "hostler dev kill host-03 --state-dir ~/hostler-dev"),
    short_help="Stop a host of 'hostler dev up', to see a failure.",
)
@click.argument("host", metavar="HOST")
@click.option(
    "--state-dir",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    default=None,
    help="The state folder of that 'hostler dev up'.  [default: the folder of HOSTLER_KEY_FILE]",
)
@click.option(
    "--key-file",
    envvar="HOSTLER_KEY_FILE",
    type=click.Path(path_type=Path),
    default=None,
    hidden=True,
    help="The key file that 'hostler dev up' named; it lies in its state folder.",
)
def kill(host: str, state_dir: Path | None, key_file: Path | None) -> None:
    """Stop a host of a running 'hostler dev up' at once, with its agent and its VMs, as a power failure would.

    The control plane learns it from the silence of the host. It starts no VM elsewhere until an administrator confirms
    that the host is dead.
    """
    check_host_name(host)
    folder = state_dir or (key_file.parent if key_file is not None else None)
    if folder is None:
        hint = "set HOSTLER_KEY_FILE as 'hostler dev up' prints it, or give --state-dir"
        raise InputError("it is not known where 'hostler dev up' runs", hint=hint)
    if not (folder / _KILLS).is_dir():
        raise _not_running(folder)
    if not (folder / "hosts" / host).is_dir():
        raise InputError(f"no host {host} runs here", hint="'hostler host list' shows the hosts")
    asked = folder / _KILLS / host
    asked.touch(mode=0o600)
    until = time.monotonic() + _WAIT_S
    while asked.exists():
        if time.monotonic() > until:
            asked.unlink(missing_ok=True)
            raise _not_running(folder)
        time.sleep(_LOOK_S)
    say(f"{host} is stopped, with its VMs. It is silent in a moment, and its VMs are unknown.")
    say(f"'hostler host confirm-dead {host}' says that it is dead: VMs that may start elsewhere do.")


def _not_running(folder: Path) -> UnavailableError:
    return UnavailableError(f"no 'hostler dev up' runs with the state folder {folder}", hint="start it first")


async def stop_killed_hosts(folder: Path, stop: Callable[[str], None], stopping: asyncio.Event) -> None:
    """Stop the hosts that ``hostler dev kill`` names, until the process ends."""
    kills = folder / _KILLS
    kills.mkdir(mode=0o700, exist_ok=True)
    for left in kills.iterdir():
        left.unlink()
    try:
        while not stopping.is_set():
            for asked in kills.iterdir():
                stop(asked.name)
                asked.unlink(missing_ok=True)
            try:
                async with asyncio.timeout(_LOOK_S):
                    await stopping.wait()
            except TimeoutError:
                continue
    finally:
        for left in kills.iterdir():
            left.unlink()
        kills.rmdir()
