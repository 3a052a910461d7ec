"""``hostler agent``: the agent of a hypervisor host.

Options become the settings of ``hostler.agent``. Invalid options are rejected before anything starts. Nothing of the
agent is imported before the command runs.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from hostler.cli.control.connection import require_extra
from hostler.cli.control.local.agent_options import (
    check_host_name,
    fake_options,
    read_delays,
    read_faults,
    read_labels,
    read_size,
    server_options,
)
from hostler.cli.control.options import read_pairs
from hostler.cli.options import FILE, examples
from hostler.cli.output.terminal import note
from hostler.config import state_folder
from hostler.config.secret_files import read_secret_lines
from hostler.errors import InputError
from hostler.model import parse_quantity

if TYPE_CHECKING:
    from hostler.agent.settings import AgentSettings
    from hostler.agent.startup import Acceleration, AgentFolder, DriverKind, DriverOptions

__all__ = ["agent"]


_FOLDER = click.Path(path_type=Path, readable=False)


@click.command(
    epilog=examples(
        "hostler agent --server https://control.example:8443 --token-file token --driver qemu --image-root /srv/images",
        "hostler agent --server https://control.example:8443 --driver libvirt --libvirt-uri qemu:///system",
        "hostler agent --server http://127.0.0.1:8470 --token-file - --driver fake --size cpu=8,memory=16Gi",
    ),
    short_help="Run on this host what the control plane orders.",
)
@server_options()
@click.option(
    "--token-file",
    metavar="FILE",
    type=FILE,
    default="",
    help="The join token, needed the first time only; a file of mode 0600, or '-' for standard input.",
)
@click.option(
    "--driver",
    type=click.Choice(["fake", "qemu", "libvirt"]),
    default=None,
    help="The driver that runs the VMs of this host.  [required]",
)
@click.option("--name", metavar="NAME", default="", help="The name of this host.  [default: the machine's]")
@click.option(
    "--state-dir",
    metavar="FOLDER",
    type=_FOLDER,
    default=None,
    help="Where credential and records are kept.  [default: agents/NAME in the user's state folder]",
)
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of this host; may be repeated.")
@click.option(
    "--storage",
    "storages",
    metavar="NAME=PLACE",
    multiple=True,
    help="Shared storage: a folder, or with libvirt a storage pool; may be repeated.",
)
@click.option(
    "--image-root",
    "image_roots",
    metavar="FOLDER",
    type=_FOLDER,
    multiple=True,
    help="Images and kernels may be used from below this folder only; may be repeated.",
)
@click.option(
    "--image-origin",
    "image_origins",
    metavar="URL",
    multiple=True,
    help="qemu fetches images from below this address only, such as https://images.example.org/vms; may be "
    "repeated. Without it, none are fetched.",
)
@click.option(
    "--image-cache",
    metavar="AMOUNT",
    default="64Gi",
    show_default=True,
    help="The most room for fetched images; unused ones are removed first.",
)
@click.option("--size", metavar="AMOUNTS", default="", help="How large a fake host is: cpu=8,memory=16Gi,disk=500Gi.")
@fake_options()
@click.option("--libvirt-uri", metavar="URI", default="qemu:///system", show_default=True, help="The URI for libvirt.")
@click.option(
    "--libvirt-pool", metavar="NAME", default="default", show_default=True, help="The storage pool of local disks."
)
@click.option(
    "--vm-dir",
    metavar="FOLDER",
    type=_FOLDER,
    default=None,
    help="Where qemu keeps VMs, disks and fetched images.  [default: /var/lib/hostler, or ~/.hostler of a user]",
)
@click.option(
    "--vm-user", metavar="NAME", default="", help="The user of qemu's VMs, never root.  [default: this agent's user]"
)
@click.option(
    "--vm-uids",
    metavar="FIRST-LAST",
    default="1900000000-1901048575",
    show_default=True,
    help="Each VM of qemu runs under a uid of its own from this range, with the groups of --vm-user, if the agent is "
    "root. none: all VMs run as --vm-user.",
)
@click.option(
    "--acceleration",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    show_default=True,
    help="How VMs run: by the processor, or in software. auto: as this machine can.",
)
@click.option("--bridge", "bridges", metavar="NAME", multiple=True, help="A bridge that VMs may use; may be repeated.")
@click.option(
    "--landing-address",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Where other hosts reach qemu here for live migration.",
)
@click.option(
    "--landing-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port of that address; 0: any that is free.",
)
@click.option(
    "--watchdog",
    type=click.Choice(["beside", "only", "none"]),
    default="beside",
    show_default=True,
    help="What stops VMs that ask for it when this host is silent: a process that the agent starts, this one instead "
    "of the agent, or none.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the lines of the log, on standard error, are written.",
)
def agent(**words: Any) -> None:  # noqa: ANN401 - those of Words
    """Run on this host what the control plane orders, until it is stopped.

    The first time, a one-time token is traded for a credential, which is kept in the state folder. SIGTERM and SIGINT
    stop the agent cleanly, a second one at once; VMs run on either way, and the next agent adopts them.
    """
    _start(AgentOptions(**words))


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``hostler agent``."""

    server: str
    ca_file: Path | None
    insecure: bool
    token_file: str
    driver: DriverKind | None
    name: str
    state_dir: Path | None
    labels: tuple[str, ...]
    storages: tuple[str, ...]
    image_roots: tuple[Path, ...]
    image_origins: tuple[str, ...]
    image_cache: str
    size: str
    delays: tuple[str, ...]
    faults: tuple[str, ...]
    libvirt_uri: str
    libvirt_pool: str
    vm_dir: Path | None
    vm_user: str
    vm_uids: str
    acceleration: Acceleration
    bridges: tuple[str, ...]
    landing_address: str
    landing_port: int
    watchdog: Literal["beside", "only", "none"]
    log_format: Literal["text", "json"]


def _start(words: AgentOptions) -> None:
    """Run an agent, or its watchdog, until a signal ends it. Invalid options are rejected first."""
    import asyncio

    with require_extra("agent", "agent"):
        from hostler.agent.startup import AgentFolder, connect, hypervisor_of, make_driver
        from hostler.agent.supervision import run_watchdog_alone, run_with_watchdog, watchdog_command
    from hostler.telemetry.log import Log

    kind = _kind(words)
    host = check_host_name(words.name or socket.gethostname())
    home = AgentFolder((words.state_dir or state_folder() / "agents" / host).absolute())
    options, settings = _options(words, host, home), _settings(words, host)
    transport = connect(words.server, authority_file=words.ca_file, is_insecure=words.insecure)
    log = Log(lambda line: note(line, label=""), form=words.log_format)
    with require_extra("agent", f"agent --driver {kind}"):
        driver = make_driver(kind, options, log=log)
    hypervisor = hypervisor_of(kind, options)
    if words.watchdog == "only":
        asyncio.run(run_watchdog_alone(home, driver, hypervisor, log))
        return
    beside = watchdog_command(words.server, kind, options) if words.watchdog == "beside" else ()
    with home.held():
        token = _token(home, words.token_file, host)
        log.info("agent starts", name=host, driver=kind, server=words.server, state=home.folder)
        if words.insecure and not words.server.startswith("https://"):
            log.warn("others can read the credential on the network: --insecure", server=words.server)
        asyncio.run(run_with_watchdog(home, driver, transport, settings, token, beside, hypervisor, log))


def _kind(words: AgentOptions) -> DriverKind:
    """Return the driver. Options of the fake driver are rejected for others."""
    if words.driver is None:
        raise InputError("no driver was named", hint="--driver qemu or libvirt; or fake to simulate VMs")
    for option, given in (("--size", words.size), ("--delay", words.delays), ("--fault", words.faults)):
        if given and words.driver != "fake":
            raise InputError(f"{option} is not for the driver {words.driver}", hint="real hosts detect it")
    return words.driver


def _options(words: AgentOptions, host: str, home: AgentFolder) -> DriverOptions:
    from hostler.agent.drivers.qemu.images import read_origin
    from hostler.agent.startup import DriverOptions

    for origin in words.image_origins:
        read_origin(origin)
    return DriverOptions(
        host=host,
        folder=home.folder,
        size=read_size(words.size),
        image_roots=tuple(_image_root(root) for root in words.image_roots),
        image_origins=words.image_origins,
        image_cache_bytes=parse_quantity(words.image_cache),
        storages=tuple(sorted(read_pairs("--storage", words.storages).items())),
        libvirt_uri=words.libvirt_uri,
        libvirt_pool=words.libvirt_pool,
        vm_folder=words.vm_dir.absolute() if words.vm_dir is not None else None,
        vm_user=words.vm_user,
        vm_uids=words.vm_uids,
        acceleration=words.acceleration,
        bridges=words.bridges,
        landing_address=words.landing_address,
        landing_port=words.landing_port,
        delays_s=read_delays(words.delays),
        faults=read_faults(words.faults),
    )


def _settings(words: AgentOptions, host: str) -> AgentSettings:
    from hostler.agent.settings import AgentSettings

    return AgentSettings(
        name=host,
        labels=read_labels(words.labels),
        storages=tuple(sorted(read_pairs("--storage", words.storages))),
        bridges=tuple(sorted(set(words.bridges))),
    )


def _token(home: AgentFolder, token_file: str, host: str) -> str:
    """Return the join token; empty if this agent has joined already."""
    from hostler.agent.startup import token_command

    if home.credentials.load() is not None:
        return ""
    if not token_file:
        raise InputError(
            f"this agent has not joined: {home.folder} holds no credential",
            hint=f"give --token-file with a join token; an admin makes one: {token_command(host)}",
        )
    return read_secret_lines("--token-file", token_file)[0]


def _image_root(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"--image-root {folder} is not a folder", hint="name the folder that holds the images")
    return folder.resolve()
