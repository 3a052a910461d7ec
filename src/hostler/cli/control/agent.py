"""``hostler agent``: the agent of a hypervisor host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hostler.cli.control.agent_options import server_options
from hostler.cli.control.fake_options import fake_options
from hostler.cli.options import FILE, examples

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
def agent(**words: Any) -> None:  # noqa: ANN401 - those of Words
    """Carry out on this host what the control plane orders, until told to stop.

    The first time, a one-time token is traded for a credential, which is kept in the state folder. SIGTERM and SIGINT
    stop the agent cleanly, a second one at once; VMs run on either way, and the next agent adopts them.
    """
    from hostler.cli.control.extras import needs

    with needs("agent", "agent"):
        from hostler.cli.control.agent_starting import Words, start

    start(Words(**words))
