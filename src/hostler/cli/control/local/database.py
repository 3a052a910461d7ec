"""``hostler backup``, ``restore`` and ``rebuild``: the database of a control plane, without its service."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.options import confirm, database_option, yes_option
from hostler.cli.control.output import shape_output
from hostler.cli.options import examples, output_option
from hostler.cli.output.terminal import note, print_data, say
from hostler.errors import InputError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.store.backup.backup import BackupReport

__all__ = [
    "backup", "rebuild", "restore",
]  # fmt: skip

_ID = "ID"
_URL = database_option(
    "The database.  [default: that of 'hostler serve', ~/.local/state/hostler/control.db or below XDG_STATE_HOME]"
)


@click.command(
    epilog=examples(
        "hostler backup control.backup",
        "hostler backup --database-url sqlite:////srv/hostler.db nightly.db",
        "hostler backup --database-url postgresql://hostler@db/hostler nightly.dump",
    ),
    short_help="Copy a control plane's database while it is used.",
)
@click.argument("file", type=click.Path(path_type=Path))
@_URL
def backup(file: Path, database_url: str) -> None:
    """Copy a control plane's database to FILE while it is in use. The copy is verified before the command succeeds.

    For PostgreSQL it is a dump in the custom format, made by pg_dump, which must be installed.
    """
    from hostler.cli.control.connection import require_extra

    with require_extra("server", "backup"):
        from hostler.control.store.backup import backup as store

    report = store.backup(database_url, file.absolute())
    say(f"backed up {store.place_of(database_url)} to {_report_text(report)}")


@click.command(
    epilog=examples(
        "hostler restore control.backup",
        "hostler restore control.backup --force",
        "hostler restore control.backup --confirm-key all",
        "hostler restore --in-place --database-url postgresql://hostler@db/hostler",
    ),
    short_help="Replace a control plane's database with a backup.",
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_URL
@click.option("--force", is_flag=True, help="Replace a database that is there.")
@click.option(
    "--in-place",
    is_flag=True,
    help="Check and renumber a database that was restored by other tools, such as pg_restore.",
)
@click.option(
    "--confirm-key",
    "confirm_keys",
    metavar="ID|all",
    multiple=True,
    help="Accept this API key of the backup; it was not revoked since.",
)
@click.option(
    "--revoke-credential",
    "revoke_credentials",
    metavar="HOST|all",
    multiple=True,
    help="Reject the credential that the backup has of this host's agent.",
)
@click.option(
    "--admin-key-file",
    type=click.Path(path_type=Path),
    help="Write the administrator's key there, if one is made, instead of showing it.",
)
@shape_output
def restore(
    file: Path | None,
    database_url: str,
    *,
    force: bool,
    in_place: bool,
    confirm_keys: tuple[str, ...],
    revoke_credentials: tuple[str, ...],
    admin_key_file: Path | None,
    output: str,
) -> None:
    """Verify the backup FILE, and replace a database that is not in use.

    Agents keep their VMs, register again and receive their orders again. Sessions of the dashboard end, and join tokens
    become void. API keys are disabled until an administrator confirms them ('hostler key confirm'), except those that
    the replaced database accepts too. If no administrator's key is left, a new one is created and shown. A database
    that was restored by pg_restore, a snapshot or an archive of PostgreSQL's log needs --in-place before it is served.
    """
    from hostler.cli.control.connection import require_extra
    from hostler.config.secret_files import check_secret_file

    if (file is None) != in_place:
        hint = "name the backup; or say --in-place, without one, where the database is restored already"
        raise InputError("restore takes either FILE or --in-place", hint=hint)
    if admin_key_file is not None:
        check_secret_file(admin_key_file)
    with require_extra("server", "restore"):
        from hostler.control.restore import READERS, access_choices
        from hostler.control.store.backup import backup as store
        from hostler.control.store.errors import DatabaseInUseError, TargetExistsError

    access = access_choices(confirm_keys, revoke_credentials)
    try:
        if file is None:
            report = store.restore_in_place(database_url, readers=READERS, access=access, tell=note)
        else:
            report = store.restore(
                file.absolute(), database_url, is_forced=force, readers=READERS, access=access, tell=note
            )
    except DatabaseInUseError as error:
        error.hint = "stop the service first ('hostler serve', all replicas of it), then restore, then start it again"
        raise
    except TargetExistsError as error:
        error.hint = "move it away, or replace it with --force"
        raise
    if output != "table":
        _hand_over_key(report, admin_key_file, is_shown=False)
        print_data(msgspec.to_builtins(_without_saved_key(report, admin_key_file)), output)
        return
    say(
        f"restored in place: {_report_text(report)}"
        if file is None
        else f"restored {file.absolute()} to {_report_text(report)}"
    )
    _show_access(report)
    _hand_over_key(report, admin_key_file, is_shown=True)
    say("start the service again; VMs get orders when every host has registered ('hostler host list')")


def _show_access(report: BackupReport) -> None:
    """Print who may use the database now, one line for each key and host that needs attention."""
    access = report.access
    if access is None:
        return
    say(f"sessions of the dashboard have ended; {plural(len(access.void_tokens), 'open join token')} void")
    for state, meaning in (
        ("revoked", "revoked since the backup, and stays so"),
        ("unconfirmed", f"disabled until an administrator confirms it: hostler key confirm {_ID}"),
    ):
        for key in access.keys:
            if key.state == state:
                where = f"in project {key.project}" if key.project else "in all projects"
                say(f"key {key.id} ({key.name}), {key.role} {where}: {meaning.replace(_ID, key.id)}")
    for host in access.hosts:
        if host.credential == "revoked":
            cure = f"to join again: hostler token create --host {host.name}"
            say(f"host {host.name}: its agent's credential is rejected; {cure}")
        elif not access.is_compared:
            cure = f"if it was revoked or replaced since: hostler host revoke {host.name}"
            say(f"host {host.name}: its agent's credential is accepted as the backup has it; {cure}")


def _hand_over_key(report: BackupReport, file: Path | None, *, is_shown: bool) -> None:
    secret = report.access.admin_key if report.access is not None else ""
    if secret and file is not None:
        from hostler.config.secret_files import write_secret

        write_secret(file, secret)
        note(f"the new administrator's key is in {file}", label="")
    elif secret and is_shown:
        note(f"no administrator's key is accepted; here is a new one, shown only once: {secret}", label="")


def _without_saved_key(report: BackupReport, file: Path | None) -> BackupReport:
    if file is None or report.access is None:
        return report
    return msgspec.structs.replace(report, access=msgspec.structs.replace(report.access, admin_key=""))


def _report_text(report: BackupReport) -> str:
    size = f"{report.size_bytes / 2**20:.1f} MiB"
    counts = f"{plural(report.vms, 'VM')}, {plural(report.hosts, 'host')}"
    return f"{report.path} ({size}, {counts}, log up to {report.seq})"


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
    backup, rebuild, start it. VMs stay on their hosts, waiting VMs are decided again, and nothing runs twice. The
    history of decisions is lost; the command lists what that means.
    """
    from hostler.cli.control.connection import require_extra
    from hostler.config import prepare_kernel_cache
    from hostler.config.folders import state_folder

    prepare_kernel_cache("control")  # before anything imports the engine
    with require_extra("server", "rebuild"):
        from hostler.control.engine_rebuild import LOST, rebuild_database
        from hostler.control.store import open_database
        from hostler.control.store.backup.backup import check_exists, place_of
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
