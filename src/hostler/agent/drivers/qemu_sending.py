"""The source of a live migration: copies a running VM, notes that it left, and says the last word until it is heard.

``qemu_migration`` has the whole story.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from hostler.agent.drivers.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.qemu_folder import VmFile, VmFolder
from hostler.agent.drivers.qemu_handshake import RefusedLandingError, knock
from hostler.agent.drivers.qemu_machines import Machines
from hostler.agent.drivers.qemu_migration import ENDED_BADLY, check_disks, encrypt
from hostler.agent.drivers.qemu_monitor import session

__all__ = ["Sendings"]

_LOOK_S = 0.05
_CANCEL_S = 30.0
_FIRST_RETRY_S, _LAST_RETRY_S = 0.2, 10.0


class Sendings:
    """What leaves one host."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._words: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Stop talking; a last word that was not answered is said again by the next one."""
        words = list(self._words.values())
        for word in words:
            word.cancel()
        await asyncio.gather(*words, return_exceptions=True)

    async def send(self, vm: str, landing: Landing) -> None:
        """Send a running VM; return when it runs there."""
        folder, file = self._machines.known(vm)
        if file.stage == "here":
            check_disks(file.order)
            file = await self._copy(folder, file, landing)
        if file.stage == "left" and not file.is_taken:
            await self._say_until_heard(folder)

    async def _copy(self, folder: VmFolder, file: VmFile, landing: Landing) -> VmFile:
        if await self._machines.process(folder) is None:
            raise PermanentError(f"{folder.vm} does not run, so it cannot be sent", hint="start it first")
        status = await self._machines.status(folder)
        is_under_way = file.sending == landing and await self._progress(folder) not in ("", *ENDED_BADLY)
        if not is_under_way:
            if status != "running":
                raise PermanentError(f"{folder.vm} is {status}, so it cannot be sent", hint="let it run first")
            # Before anything is sent, so that whoever comes after us knows what to make of a VM that stands still.
            file = msgspec.structs.replace(file, sending=landing, is_taken=False)
            folder.write(file)
        try:
            if not is_under_way:
                await self._begin(folder, landing)
            await self._follow(folder)
        except asyncio.CancelledError:
            await asyncio.shield(self._cancel(folder))
            raise
        return self.leave(folder)

    async def _begin(self, folder: VmFolder, landing: Landing) -> None:
        connection = await knock(landing, folder.vm, "stream")
        with connection:
            async with session(folder.qmp, folder.vm) as opened:
                await encrypt(opened, folder, self._machines.users.runner(folder), secret=landing.secret, side="client")
                await opened.give(connection.fileno(), "way")
                await opened.ask("migrate", uri="fd:way")

    async def _follow(self, folder: VmFolder) -> None:
        while True:
            info = await self._machines.ask(folder, "query-migrate")
            state = info.get("status", "")
            if state == "completed":
                return
            if state in ("", *ENDED_BADLY):
                why = info.get("error-desc", "the connection ended")
                raise DriverError(f"{folder.vm} was not sent: {why}", hint="it runs on here; it is tried again")
            await asyncio.sleep(_LOOK_S)

    async def _cancel(self, folder: VmFolder) -> None:
        """Take a sending back; one that was completed in that moment cannot be."""
        with suppress(DriverError, TimeoutError):
            await self._machines.ask(folder, "migrate_cancel")
            async with asyncio.timeout(_CANCEL_S):
                await self._follow(folder)
            self.leave(folder)

    def leave(self, folder: VmFolder) -> VmFile:
        """Note that a VM which was copied has left, from where there is no way back; say the last word from now on."""
        _, file = self._machines.known(folder.vm)
        file = msgspec.structs.replace(file, stage="left", is_taken=False)
        folder.write(file)
        return file

    def keep_saying(self, folder: VmFolder) -> None:
        """Say the last word for a VM that left under an earlier agent, in the background."""
        word = self._words.get(folder.vm)
        if word is None or word.done():
            self._words[folder.vm] = asyncio.ensure_future(self._say_quietly(folder))

    async def forget(self, vm: str) -> None:
        """Stop saying it: the VM is to be here again, or gone."""
        word = self._words.pop(vm, None)
        if word is not None:
            word.cancel()
            await asyncio.gather(word, return_exceptions=True)

    async def _say_quietly(self, folder: VmFolder) -> None:
        with suppress(DriverError):
            async with self._machines.lock(folder.vm):
                await self._say_until_heard(folder)

    async def _say_until_heard(self, folder: VmFolder) -> None:
        wait_s = _FIRST_RETRY_S
        while True:
            _, file = self._machines.known(folder.vm)
            if file.stage != "left" or file.is_taken or file.sending is None:
                return
            try:
                (await knock(file.sending, folder.vm, "run")).close()
            except RefusedLandingError:
                raise
            except DriverError:
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _LAST_RETRY_S)
                continue
            folder.write(msgspec.structs.replace(file, is_taken=True))
            await self._machines.end(folder)

    async def _progress(self, folder: VmFolder) -> str:
        return str((await self._machines.ask(folder, "query-migrate")).get("status", ""))
