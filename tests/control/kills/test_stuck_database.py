"""A database on which ``hostler serve`` of commit fd5b4e2 ends at every start.

``data/preemption-fd5b4e2.db.gz`` was written by the service of that commit, as ``test_preemption_kills`` does it:
killed in the middle of a preemption, with the checkpoint from before a bystander left its host. That service ends with
exit code 70 and ``this replica decided otherwise than the leader in entry 38 of the log``.
"""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.service import CALM, ServiceProcess

STUCK = Path(__file__).parent / "data" / "preemption-fd5b4e2.db.gz"


def test_database_stuck_in_a_preemption_is_served(tmp_path: Path):
    database = tmp_path / "control.db"
    database.write_bytes(gzip.decompress(STUCK.read_bytes()))
    service = ServiceProcess(tmp_path, f"sqlite:///{database}", options=CALM)
    with DatabaseReader(service.url) as reader:
        last = reader.entries()[-1].seq

    async def serve_once() -> None:
        await service.start()
        await service.ready(leads=True)

    try:
        asyncio.run(serve_once())
    finally:
        service.stop()
    told = service.log.read_text()
    assert "cannot be used" not in told, told
    with DatabaseReader(service.url) as reader:
        assert reader.entries()[-1].seq >= last
