"""The target of a live migration: landings that wait for VMs, take what comes and let it run when the source says so.

``qemu_migration`` has the whole story.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from contextlib import suppress

import msgspec

from hostler.agent.drivers.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.qemu_command import read_count
from hostler.agent.drivers.qemu_folder import VmFile, VmFolder, vm_folders
from hostler.agent.drivers.qemu_handshake import LandingPort, Purpose, RefusedLandingError
from hostler.agent.drivers.qemu_machines import Machines
from hostler.agent.drivers.qemu_migration import ENDED_BADLY, check_disks, encrypt
from hostler.agent.drivers.qemu_monitor import session
from hostler.agent.messages import Order

__all__ = ["Landings"]

_LOOK_S = 0.05
_ARRIVE_S = 30.0
_LAST_PORT = 65535


class Landings:
    """The landings of one host, behind one port."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._port = LandingPort(self._secret_of, self._arrive)
        self._number = 0
        self._note = machines.settings.folder / "landing-port"

    async def close(self) -> None:
        """Stop listening; the next agent listens on the same port."""
        await self._port.close()

    async def prepare(self, order: Order) -> Landing:
        """Prepare a landing, or find the one that is prepared."""
        folder = self._machines.folder(order.vm)
        file = folder.read()
        if file is None:
            self._machines.check(order)
            check_disks(order)
            with self._machines.disks.laying(order):
                file = await self._make(order, folder)
        elif file.stage == "landing" and not file.secret:
            file = msgspec.structs.replace(file, secret=secrets.token_hex(32))
            folder.write(file)
        elif not file.secret or file.stage == "left":
            raise PermanentError(f"{order.vm} is on this host and waits for nobody", hint="delete it here first")
        self._listen()
        host = self._machines.settings.landing_address
        return Landing(
            address=f"[{host}]:{self._number}" if ":" in host else f"{host}:{self._number}", secret=file.secret
        )

    async def _make(self, order: Order, folder: VmFolder) -> VmFile:
        await self._machines.check_files(order)
        async with self._machines.making():
            self._machines.users.make_folder(folder, self._machines.disks.shared_paths(order, folder))
            async with self._machines.disks.opened(order, folder):
                pass  # what could not land here is rejected now; it is checked again when the VM comes
            order = msgspec.structs.replace(order, migration=None)
            file = VmFile(order=order, stage="landing", secret=secrets.token_hex(32))
            folder.write(file)
        return file

    async def shut(self, folder: VmFolder) -> None:
        """Let nothing arrive, until a landing is prepared again."""
        _, file = self._machines.known(folder.vm)
        folder.write(msgspec.structs.replace(file, secret=""))
        await self._machines.end(folder)

    def promised_port(self) -> int:
        """Return the port that an earlier agent promised to listen on, or 0. Blocks: call it in a thread."""
        if self._number:
            return 0
        before = self._port_before()
        return before if before and any(self._secret_of(one.vm) for one in vm_folders(self._machines.vms)) else 0

    def listen_again(self, port: int) -> None:
        """Listen on a promised port, if nobody does; who repeats the last word must be answered."""
        if port and not self._number:
            with suppress(OSError):
                self._number = self._port.open(self._machines.settings.landing_address, port)

    def _listen(self) -> None:
        if self._number:
            return
        settings = self._machines.settings
        for port in dict.fromkeys((settings.landing_port or self._port_before(), settings.landing_port)):
            try:
                self._number = self._port.open(settings.landing_address, port)
                break
            except OSError as error:
                why = error
        else:
            raise DriverError(f"no port for landings at {settings.landing_address}: {why}", hint="set another address")
        self._note.write_text(str(self._number))

    def _port_before(self) -> int:
        text = self._note.read_text() if self._note.exists() else ""
        return read_count(text, most=_LAST_PORT) or 0

    def _secret_of(self, vm: str) -> str:
        try:
            file = self._machines.folder(vm).read()
        except DriverError:
            return ""
        return file.secret if file is not None and file.stage != "left" else ""

    async def _arrive(self, vm: str, purpose: Purpose, connection: socket.socket) -> None:
        async with self._machines.lock(vm):
            folder, file = self._machines.known(vm)
            if purpose == "run":
                await self._take(folder, file)
            elif file.stage == "landing":
                await self._receive(folder, file, connection)
            else:
                raise RefusedLandingError(f"{vm} has landed", hint="")

    async def _receive(self, folder: VmFolder, file: VmFile, connection: socket.socket) -> None:
        """Give the connection to a QEMU of its own: what an earlier try left is worth nothing."""
        await self._machines.end(folder)
        await self._machines.boot(folder, file.order, is_landing=True)
        async with session(folder.qmp, folder.vm) as opened:
            await encrypt(opened, folder, self._machines.users.runner(folder), secret=file.secret, side="server")
            await opened.give(connection.fileno(), "way")
            await opened.ask("migrate-incoming", uri="fd:way")

    async def _take(self, folder: VmFolder, file: VmFile) -> None:
        """Let a VM run that has arrived and will not run at its source any more."""
        if file.stage == "landing":
            if await self._machines.process(folder) is None:
                raise RefusedLandingError(f"{folder.vm} did not arrive", hint="")
            await self._await_arrival(folder)
            self._machines.disks.claim(file.order, folder)
            folder.write(msgspec.structs.replace(file, stage="here", is_arriving=True))
        await self.finish_arrival(folder)

    async def finish_arrival(self, folder: VmFolder) -> None:
        """Let a VM run whose last word was heard; after a crash in between, once more."""
        _, file = self._machines.known(folder.vm)
        if not file.is_arriving:
            return
        if await self._machines.process(folder) is not None and await self._machines.status(folder) == "paused":
            await self._machines.ask(folder, "cont")
        folder.write(msgspec.structs.replace(file, is_arriving=False))

    async def _await_arrival(self, folder: VmFolder) -> None:
        async with asyncio.timeout(_ARRIVE_S):  # the connection ends then, and the sender tries again
            while True:
                state = (await self._machines.ask(folder, "query-migrate")).get("status")
                if state == "completed" and await self._machines.status(folder) == "paused":
                    return
                if state in ENDED_BADLY:
                    raise RefusedLandingError(f"{folder.vm} arrived damaged", hint="")
                await asyncio.sleep(_LOOK_S)
