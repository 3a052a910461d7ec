"""Sessions with a QEMU that ends at a bad moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.agent.drivers.qemu.monitor import MonitorError, ask

GREETING = (
    b'{"QMP": {"version": {"qemu": {"major": 9, "minor": 0, "micro": 0}, "package": ""}, "capabilities": []}}\r\n'
)


@pytest.mark.parametrize("words", [b"", GREETING[:40], GREETING, GREETING + b'{"return": {}}\r\n'])
async def test_vm_that_ends_while_monitor_opens_is_a_monitor_error(words: bytes, tmp_path: Path) -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(end, tmp_path / "qmp"):
        with pytest.raises(MonitorError, match="does not answer"):
            await ask(tmp_path / "qmp", "a", "query-status")
