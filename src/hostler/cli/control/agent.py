"""``hostler agent``: the agent of a hypervisor host."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hostler.cli.control.agent_options import (
    check_host_name,
    read_labels,
    read_pairs,
    read_secret_lines,
    read_size,
    server_options,
)
from hostler.cli.control.fake_options import fake_options, read_delays, read_faults
from hostler.cli.options import FILE, examples
from hostler.cli.terminal import note
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.agent.running import Acceleration, DriverKind, Home

__all__ = ["agent"]

_FOLDER = click.Path(path_type=Path, readable=False)


@click.command(
    epilog=examples(
        "hostler agent --server https://control.example:8443 --token-file token --driver qemu --image-root /srv/images",
        "hostler agent --server https://control.example:8443 --driver libvirt --libvirt-uri qemu:///system",
        "hostler agent --server http://127.0.0.1:8470 --token-file - --driver fake --size cpu=8,memory=16Gi",
    ),
    short_help="Carry out on this host what the control plane orders.",
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
    help="What runs the VMs of this host.  [required]",
)
@click.option("--name", metavar="NAME", default="", help="The name of this host.  [default: the machine's]")
@click.option(
    "--state-dir",
    metavar="FOLDER",
    type=_FOLDER,
    default=None,
    help="Where credential and records are kept.  [default: agents/NAME in the user's state folder]",
)
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of this host; as often as wanted.")
@click.option(
    "--storage",
    "storages",
    metavar="NAME=PLACE",
    multiple=True,
    help="Shared storage: a folder, or with libvirt a storage pool; as often as wanted.",
)
@click.option(
    "--image-root",
    "image_roots",
    metavar="FOLDER",
    type=_FOLDER,
    multiple=True,
    help="Images and kernels may be used from below this folder only; as often as wanted.",
)
@click.option(
    "--image-origin",
    "image_origins",
    metavar="URL",
    multiple=True,
    help="qemu fetches images from below this address only, such as https://images.example.org/vms; as often as "
    "wanted. Without it, none are fetched.",
)
@click.option(
    "--image-cache",
    metavar="AMOUNT",
    default="64Gi",
    show_default=True,
    help="What all fetched images may take; unused ones make room for others.",
)
@click.option("--size", metavar="AMOUNTS", default="", help="How large a fake host is: cpu=8,memory=16Gi,disk=500Gi.")
@fake_options()
@click.option(
    "--libvirt-uri", metavar="URI", default="qemu:///system", show_default=True, help="What libvirt connects to."
)
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
    "--vm-user", metavar="NAME", default="", help="Whom qemu's VMs run as, never root.  [default: this agent's user]"
)
@click.option(
    "--acceleration",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    show_default=True,
    help="How VMs run: by the processor, or in software. auto: as this machine can.",
)
@click.option(
    "--bridge", "bridges", metavar="NAME", multiple=True, help="A bridge that VMs may use; as often as wanted."
)
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
    "of the agent, or nobody here.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the lines of the log, on standard error, are written.",
)
def agent(
    server: str,
    ca_file: Path | None,
    insecure: bool,
    token_file: str,
    driver: DriverKind | None,
    name: str,
    state_dir: Path | None,
    labels: tuple[str, ...],
    storages: tuple[str, ...],
    image_roots: tuple[Path, ...],
    image_origins: tuple[str, ...],
    image_cache: str,
    size: str,
    delays: tuple[str, ...],
    faults: tuple[str, ...],
    libvirt_uri: str,
    libvirt_pool: str,
    vm_dir: Path | None,
    vm_user: str,
    acceleration: Acceleration,
    bridges: tuple[str, ...],
    landing_address: str,
    landing_port: int,
    watchdog: Literal["beside", "only", "none"],
    log_format: Literal["text", "json"],
) -> None:
    """Carry out on this host what the control plane orders, until told to stop.

    The first time, a one-time token is traded for a credential, which is kept in the state folder. SIGTERM and SIGINT
    stop the agent cleanly, a second one at once; VMs run on either way, and the next agent adopts them.
    """
    from hostler.cli.control.extras import needs

    with needs("agent", "agent"):
        from hostler.agent.drivers.qemu_origins import read_origin
        from hostler.agent.running import DriverOptions, Home, connect, hypervisor_of, make_driver
        from hostler.cli.control.agent_running import run, watch, watchdog_words
    from hostler.agent.settings import Settings
    from hostler.config import state_folder
    from hostler.model import parse_quantity
    from hostler.telemetry.log import Log

    if driver is None:
        raise InputError("no driver was named", hint="--driver qemu or libvirt; fake, where nothing is to run")
    for option, given in (("--size", size), ("--delay", delays), ("--fault", faults)):
        if given and driver != "fake":
            raise InputError(f"{option} is not for the driver {driver}", hint="real hosts know that themselves")
    host = check_host_name(name or socket.gethostname())
    for origin in image_origins:
        read_origin(origin)
    places = read_pairs("--storage", storages)
    home = Home((state_dir or state_folder() / "agents" / host).absolute())
    options = DriverOptions(
        host=host,
        folder=home.folder,
        size=read_size(size),
        image_roots=tuple(_image_root(root) for root in image_roots),
        image_origins=image_origins,
        image_cache_bytes=parse_quantity(image_cache),
        storages=tuple(sorted(places.items())),
        libvirt_uri=libvirt_uri,
        libvirt_pool=libvirt_pool,
        vm_folder=vm_dir.absolute() if vm_dir is not None else None,
        vm_user=vm_user,
        acceleration=acceleration,
        bridges=bridges,
        landing_address=landing_address,
        landing_port=landing_port,
        delays_s=read_delays(delays),
        faults=read_faults(faults),
    )
    settings = Settings(
        name=host,
        labels=read_labels(labels),
        storages=tuple(sorted(places)),
        bridges=tuple(sorted(set(bridges))),
    )
    transport = connect(server, authority_file=ca_file, is_insecure=insecure)
    log = Log(lambda line: note(line, label=""), form=log_format)
    with needs("agent", f"agent --driver {driver}"):
        made = make_driver(driver, options, tell=log.warn)
    hypervisor = hypervisor_of(driver, options)
    if watchdog == "only":
        asyncio.run(watch(home, made, hypervisor, log))
        return
    words = watchdog_words(server, driver, options) if watchdog == "beside" else ()
    with home.held():
        token = _token(home, token_file)
        log.info("agent starts", name=host, driver=driver, server=server, state=home.folder)
        if insecure and not server.startswith("https://"):
            log.warn("the credential can be read on its way: --insecure", server=server)
        asyncio.run(run(home, made, transport, settings, token, words, hypervisor, log))


def _token(home: Home, token_file: str) -> str:
    """Return the token to join with; empty where this agent has joined already."""
    if home.credentials.load() is not None:
        return ""
    if not token_file:
        raise InputError(
            f"this agent never joined: {home.folder} holds no credential",
            hint="give --token-file with a join token; an admin makes one with 'hostler token create'",
        )
    return read_secret_lines("--token-file", token_file)[0]


def _image_root(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"--image-root {folder} is no folder", hint="name the folder that holds the images")
    return folder.resolve()
