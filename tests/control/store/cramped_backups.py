"""Backs up and restores where there is no room, and where nothing may be written; prints as JSON what came of it.

It runs as a program of its own where a small disk and one that is only read are mounted for it alone
(``test_invalid_locations``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from hostler.control.store import open_database
from hostler.control.store.backup.backup import backup, restore, restore_in_place
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow
from hostler.errors import HostlerError

LARGE = DocumentRow(project="", name="large", body=b'{"a":"%s"}' % (b"x" * 3_000_000))


def refused(work: Callable[[], object]) -> str:
    """Return why something is refused."""
    try:
        work()
    except HostlerError as error:
        return f"{error.code}: {error.message}"
    return ""


def story(folder: Path) -> dict[str, object]:
    roomy, small, fixed = folder / "roomy", folder / "small", folder / "fixed"
    url = f"sqlite:///{roomy / 'control.db'}"
    database = open_database(url)
    database.submit(lambda connection: documents.insert(connection, "setting", LARGE)).result(60)
    database.close()
    saved = roomy / "saved.db"
    backup(url, saved)
    kept = small / "kept.db"
    open_database(f"sqlite:///{kept}").close()
    before = sorted(path.name for path in small.iterdir())
    told: dict[str, object] = {
        "backup to a full disk": refused(lambda: backup(url, small / "copy.db")),
        "restore to a full disk": refused(lambda: restore(saved, f"sqlite:///{kept}", is_forced=True)),
        "backup to a fixed folder": refused(lambda: backup(url, fixed / "copy.db")),
        "restore to a fixed folder": refused(lambda: restore(saved, f"sqlite:///{fixed / 'new' / 'control.db'}")),
        "restore in a fixed folder": refused(lambda: restore_in_place(f"sqlite:///{fixed / 'control.db'}")),
        "open in a fixed folder": refused(lambda: open_database(f"sqlite:///{fixed / 'control.db'}")),
    }
    told["left"] = [name for name in sorted(path.name for path in small.iterdir()) if name not in before]
    open_database(f"sqlite:///{kept}").close()
    return told


if __name__ == "__main__":
    print(msgspec.json.encode(story(Path(sys.argv[1]))).decode())
