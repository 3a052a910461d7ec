"""``hostler rebuild``: the engine of a control plane made from its rows, if no checkpoint is of use."""

from __future__ import annotations

import time

import click

from hostler.cli.control.asking import confirm, yes_option
from hostler.cli.control.database_option import database_option
from hostler.cli.options import examples, output_option
from hostler.cli.terminal import note, print_data, say
from hostler.cli.wording import plural

__all__ = ["rebuild"]

_STOP = "stop the service first ('hostler serve', all replicas of it), then rebuild, then start it again"


@click.command(
    epilog=examples(
        "hostler rebuild",
        "hostler rebuild --yes --database-url sqlite:////srv/hostler.db",
        "hostler rebuild --yes -o json",
    ),
    short_help="Rebuild a control plane's engine from rows, if it cannot start otherwise.",
)
@database_option(
    "The database.  [default: that of 'hostler serve', ~/.local/state/hostler/control.db or below XDG_STATE_HOME]"
)
@yes_option()
@output_option("table", "json", "yaml")
def rebuild(database_url: str, output: str, *, yes: bool) -> None:
    """Rebuild the engine of a control plane from rows: VMs, hosts, projects, quotas, reservations, gangs.

    For a lone replica that cannot follow its log from any checkpoint: its log and /readyz say so. Stop it, take a
    backup, rebuild, start it. VMs stay where they are, those that wait are decided again, and nothing runs twice. The
    history of decisions is lost; the command lists what that means.
    """
    from hostler.cli.control.extras import needs
    from hostler.config import prepare_kernel_cache
    from hostler.config.folders import state_folder

    prepare_kernel_cache("control")  # before anything imports the engine
    with needs("server", "rebuild"):
        from hostler.control.engine_rebuild import LOST, rebuild_database
        from hostler.control.store import open_database
        from hostler.control.store.backup import check_exists, place_of
        from hostler.control.store.errors import DatabaseInUseError

    check_exists(database_url)
    where = place_of(database_url)
    if output == "table":
        say("\n".join(("a rebuild loses:", *(f"  {one}" for one in LOST))))
    confirm(f"Rebuild the engine of {where} from its rows?", is_sure=yes)
    now_ns = time.time_ns()  # noqa: TID251 - entries of the log bear wall times
    try:
        database = open_database(database_url, state=state_folder(), tell=note)
    except DatabaseInUseError as error:
        error.hint = _STOP
        raise
    try:
        report = rebuild_database(database, now_ns, note)
    finally:
        database.close()
    if output != "table":
        print_data(report, output)
        return
    for line in report.refused:
        say(f"not taken: {line}")
    counts = f"{plural(report.vms_with_room, 'VM')} with room, {report.vms_waiting} waiting"
    say(f"rebuilt {where} at entry {report.seq} of the log: {counts}, {plural(report.hosts, 'host')}")
