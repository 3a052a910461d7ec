"""Runs the command by which an operator's own means prove that a host is dead. It is trusted when it exits with 0."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

__all__ = ["run_fence_command"]

_KEPT = ("PATH", "HOME", "LANG")  # of our environment, which may hold secrets


async def run_fence_command(command: Sequence[str], *, host: str, identity: str, timeout_s: float) -> str:
    """Run the command for a host; return why it is no proof, or nothing if it is one."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"HOSTLER_HOST": host, "HOSTLER_HOST_ID": identity}
    nowhere = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {(error.strerror or str(error)).lower()}"
    try:
        async with asyncio.timeout(timeout_s):
            code = await process.wait()
    except TimeoutError:
        return f"{command[0]} took longer than {timeout_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return "" if code == 0 else f"{command[0]} exited with {code}"
