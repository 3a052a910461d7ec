"""``hostler backup`` and ``hostler restore``: the database of a control plane as one checked file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.control.database_option import database_option
from hostler.cli.options import examples
from hostler.cli.terminal import say
from hostler.cli.wording import plural
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.store.backup import BackupReport

__all__ = ["backup", "restore"]

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
    help="The database was restored already, by tools of its own: check it, and let its numbers begin anew.",
)
def restore(file: Path | None, database_url: str, *, force: bool, in_place: bool) -> None:
    """Check the backup FILE and put it in the place of a database that nobody uses.

    Agents keep what they have: they register anew, and are told again what they are to run. A database that pg_restore,
    a snapshot or an archive of PostgreSQL's log brought back needs --in-place before it is served.
    """
    from hostler.cli.control.extras import needs

    if (file is None) != in_place:
        hint = "name the backup; or say --in-place, without one, where the database is restored already"
        raise InputError("restore takes either FILE or --in-place", hint=hint)
    with needs("server", "restore"):
        from hostler.control.restoring import READERS
        from hostler.control.store import backup as store
        from hostler.control.store.errors import BackupError, DatabaseInUseError

    try:
        if file is None:
            say(f"restored in place: {_told(store.restore_in_place(database_url, readers=READERS))}")
            return
        report = store.restore(file.absolute(), database_url, is_forced=force, readers=READERS)
    except DatabaseInUseError as error:
        error.hint = "stop the service first ('hostler serve', all replicas of it), then restore, then start it again"
        raise
    except BackupError as error:
        if error.message.endswith("would be replaced"):
            error.hint = "move it away, or replace it with --force"
        raise
    say(f"restored {file.absolute()} to {_told(report)}")


def _told(report: BackupReport) -> str:
    size = f"{report.size_bytes / 2**20:.1f} MiB"
    counts = f"{plural(report.vms, 'VM')}, {plural(report.hosts, 'host')}"
    return f"{report.path} ({size}, {counts}, log up to {report.seq})"
