"""``hostler backup`` and ``hostler restore``: the database of a control plane as one checked file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.database_option import database_option
from hostler.cli.control.showing import shape_output
from hostler.cli.options import examples
from hostler.cli.terminal import note, print_data, say
from hostler.cli.wording import plural
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.store.backup import BackupReport

__all__ = ["backup", "restore"]

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
    """Copy a control plane's database to FILE while it is used; the copy is checked before it counts.

    Of PostgreSQL it is a dump in the custom format, made by pg_dump, which must be installed.
    """
    from hostler.cli.control.extras import needs

    with needs("server", "backup"):
        from hostler.control.store import backup as store

    report = store.backup(database_url, file.absolute())
    say(f"backed up {store.place_of(database_url)} to {_told(report)}")


@click.command(
    epilog=examples(
        "hostler restore control.backup",
        "hostler restore control.backup --force",
        "hostler restore control.backup --confirm-key all",
        "hostler restore --in-place --database-url postgresql://hostler@db/hostler",
    ),
    short_help="Put a backup in the place of a control plane's database.",
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
    """Check the backup FILE, and replace a database that is not in use.

    Agents keep their VMs, register again and receive their orders again. Sessions of the dashboard end, and join tokens
    are void. API keys are disabled until an administrator confirms them ('hostler key confirm'), except those that the
    replaced database accepts too. If no administrator's key is left, a new one is made and shown. A database that
    pg_restore, a snapshot or an archive of PostgreSQL's log brought back needs --in-place before it is served.
    """
    from hostler.cli.control.extras import needs
    from hostler.cli.control.serving import check_secret_file

    if (file is None) != in_place:
        hint = "name the backup; or say --in-place, without one, where the database is restored already"
        raise InputError("restore takes either FILE or --in-place", hint=hint)
    if admin_key_file is not None:
        check_secret_file(admin_key_file)
    with needs("server", "restore"):
        from hostler.control.restoring import READERS, access_choices
        from hostler.control.store import backup as store
        from hostler.control.store.errors import BackupError, DatabaseInUseError

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
    except BackupError as error:
        if error.message.endswith("would be replaced"):
            error.hint = "move it away, or replace it with --force"
        raise
    if output != "table":
        _hand_over_key(report, admin_key_file, is_shown=False)
        print_data(msgspec.to_builtins(_without_saved_key(report, admin_key_file)), output)
        return
    say(f"restored in place: {_told(report)}" if file is None else f"restored {file.absolute()} to {_told(report)}")
    _show_access(report)
    _hand_over_key(report, admin_key_file, is_shown=True)


def _show_access(report: BackupReport) -> None:
    """Write who may use the database now, one line for each key and host that needs a look."""
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
        from hostler.cli.control.serving import write_secret

        write_secret(file, secret)
        note(f"the new administrator's key is in {file}", label="")
    elif secret and is_shown:
        note(f"no administrator's key is accepted; here is a new one, shown this once: {secret}", label="")


def _without_saved_key(report: BackupReport, file: Path | None) -> BackupReport:
    if file is None or report.access is None:
        return report
    return msgspec.structs.replace(report, access=msgspec.structs.replace(report.access, admin_key=""))


def _told(report: BackupReport) -> str:
    size = f"{report.size_bytes / 2**20:.1f} MiB"
    counts = f"{plural(report.vms, 'VM')}, {plural(report.hosts, 'host')}"
    return f"{report.path} ({size}, {counts}, log up to {report.seq})"
