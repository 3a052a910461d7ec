"""``hostler host edit``: how much of a host VMs may have, and which of them stay away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from hostler.cli.control.asking import read_amounts
from hostler.cli.control.connecting import There, complete_host, connects_fleet_wide
from hostler.cli.control.host_show import taint_text
from hostler.cli.control.shaping import valid
from hostler.cli.control.showing import shape_output, told
from hostler.cli.options import examples
from hostler.cli.wording import readable_amount
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Host

__all__ = ["edit"]


@click.command(
    epilog=examples(
        "hostler host edit node-3 --overcommit cpu=1.5 --reserve cpu=1,memory=4Gi",
        "hostler host edit node-3 --overcommit ''",
        "hostler host edit node-3 --taint gpu=yes:NoSchedule",
    ),
    short_help="Change how much of a host VMs may have.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@click.option(
    "--overcommit",
    metavar="RATIOS",
    default=None,
    help="By how much what it has is multiplied: cpu=1.5. '' takes it away.",
)
@click.option(
    "--reserve",
    metavar="AMOUNTS",
    default=None,
    help="What is kept back from VMs: cpu=1,memory=4Gi. '' takes it away.",
)
@click.option(
    "--taint",
    "taints",
    metavar="KEY[=VALUE][:EFFECT]",
    multiple=True,
    help="A mark that keeps VMs away which do not tolerate it; may be repeated. '' takes all away.",
)
@connects_fleet_wide
@shape_output
def edit(
    there: There, host: str, overcommit: str | None, reserve: str | None, taints: tuple[str, ...], output: str
) -> None:
    """Change what VMs may have of a host: what it has, times overcommit, less reserve.

    Each option replaces all that was there of its kind.

    VMs that are there stay, also where it is less than they have now.
    """
    from hostler.control.api.shapes import HostEdit

    words: dict[str, Any] = {}
    for name, given in (("overcommit", overcommit), ("reserve", reserve)):
        if given is not None:
            words[name] = read_amounts(f"--{name}", [given])
    if taints:
        words["taints"] = [_taint(one) for one in taints if one]
    if not words:
        raise InputError("nothing is to be changed", hint="give --overcommit, --reserve or --taint")
    with there.open() as client:
        after = client.hosts.edit(host, valid(HostEdit, words))
    marks = ", ".join(taint_text(one) for one in after.taints)
    told(after, output, f"{after.name}: VMs may have {_may_give(after)}{f'; taints: {marks}' if marks else ''}")


def _taint(word: str) -> dict[str, str]:
    """Read a taint as kubectl writes it; without an effect it is NoSchedule."""
    from hostler.model.selectors import Effect

    known = get_args(Effect)
    pair, colon, effect = word.partition(":")
    key, _, value = pair.partition("=")
    if not key or (colon and effect not in known):
        hint = f"write --taint KEY=VALUE:EFFECT, with one of {', '.join(known)}"
        raise InputError(f"--taint {word[:80]!r} is no taint", hint=hint)
    return {"key": key, "value": value, "effect": effect or "NoSchedule"}


def _may_give(host: Host) -> str:
    room = (("cpu", host.may_give.cpu_millis), ("memory", host.may_give.memory_bytes))
    return ", ".join(f"{name} {readable_amount(name, amount)}" for name, amount in room)
