"""Fills the disk below a database, as a program of its own, and prints what happens to changes then as JSON.

It runs where a small disk is mounted for it alone (``test_full_disk``).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from hostler.control.store import Database, open_database
from hostler.control.store.history import log
from hostler.errors import HostlerError
from tests.control.store.row_makers import note


async def fill(database: Database) -> tuple[int, HostlerError]:
    """Write until that is refused; return how often it was not, and the refusal."""
    written = 0
    while True:
        try:
            await database.write(lambda connection: log.append(connection, [note(b'"%s"' % (b"x" * 20_000))]))
        except HostlerError as error:
            return written, error
        written += 1


async def story(folder: Path) -> dict[str, object]:
    reserve = folder / "reserve"
    reserve.write_bytes(bytes(500_000))
    database = open_database(f"sqlite:///{folder / 'control.db'}")
    written, refusal = await fill(database)
    kept = await database.read(log.head)
    failures = {cause: count for cause, count in database.failures.items() if count}
    reserve.unlink()
    more, _ = await fill(database)
    await database.aclose()
    error = [refusal.code, refusal.message, refusal.hint]
    return {"written": written, "kept": kept, "more": more, "error": error, "failures": failures}


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(story(Path(sys.argv[1])))).decode())
