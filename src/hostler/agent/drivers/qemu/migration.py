"""Live migration: a VM runs on one side at any time, whatever dies in between.

The target (``Landings``) waits with a record and a secret. The source (``Sendings``) proves the secret on the target's
port (``handshake``) and both give the connection to their QEMU, which encrypts it with a key made from the secret. When
all is copied, the VM stands still on both sides. The source then notes that it has left, which is the point of no
return, and only then says the last word: let it run. It is repeated until it was answered, also by the next agent. A
try that fails before that note leaves the VM running at the source, and the target ready for the next try.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.machine.processes import VmUser, read_count
from hostler.agent.drivers.qemu.disks import is_shared
from hostler.agent.drivers.qemu.folder import VmFile, VmFolder, vm_folders
from hostler.agent.drivers.qemu.handshake import LandingPort, LandingRejectedError, Purpose, knock, stream_key
from hostler.agent.drivers.qemu.machines import Machines
from hostler.agent.drivers.qemu.monitor import CommandRejectedError, MonitorSession, session
from hostler.agent.messages import Order

__all__ = ["ENDED_BADLY", "Landings", "Sendings", "check_disks", "encrypt"]

ENDED_BADLY = ("failed", "cancelled")  # QEMU's words for it
_KEY = "migration-key"
_BANDWIDTH = 2**33  # bytes a second: the network is the limit


async def encrypt(
    opened: MonitorSession, folder: VmFolder, runner: VmUser, *, secret: str, side: Literal["client", "server"]
) -> None:
    """Tell QEMU to encrypt what it sends or receives with a key made from the secret of a landing."""
    _write_key(folder.keys, stream_key(secret), runner)
    with suppress(CommandRejectedError):  # there is none yet
        await opened.execute("object-del", {"id": _KEY})
    key = {"qom-type": "tls-creds-psk", "id": _KEY, "dir": str(folder.keys), "endpoint": side}
    await opened.execute("object-add", key)
    names = ("return-path", "auto-converge")
    await opened.execute(
        "migrate-set-capabilities", {"capabilities": [{"capability": name, "state": True} for name in names]}
    )
    # The name is not checked for keys of this kind, but has to be there.
    parameters = {"tls-creds": _KEY, "tls-hostname": "landing", "max-bandwidth": _BANDWIDTH}
    await opened.execute("migrate-set-parameters", parameters)


def check_disks(order: Order) -> None:
    """Reject a move of a VM with local disks."""
    if not is_shared(order):
        raise PermanentError(
            f"{order.vm} has a disk on one host only", hint="live migration needs shared storage, or no disks"
        )


def _write_key(folder: Path, key: str, runner: VmUser) -> None:
    path = folder / "keys.psk"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
    with os.fdopen(descriptor, "w") as file:
        if runner.must_switch:
            os.fchown(file.fileno(), runner.uid, runner.gid)
        file.write(f"qemu:{key}\n")


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
            raise PermanentError(
                f"{order.vm} is on this host and not waiting for a migration", hint="delete it here first"
            )
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
        """Close the landing until one is prepared again."""
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
        """Listen on a promised port, unless that is done already: a repeated last word needs an answer."""
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
                raise LandingRejectedError(f"{vm} has landed", hint="")

    async def _receive(self, folder: VmFolder, file: VmFile, connection: socket.socket) -> None:
        """Hand the connection to a new QEMU: what an earlier try left is worthless."""
        await self._machines.end(folder)
        await self._machines.boot(folder, file.order, is_landing=True)
        async with session(folder.qmp, folder.vm) as opened:
            await encrypt(opened, folder, self._machines.users.runner(folder), secret=file.secret, side="server")
            await opened.give(connection.fileno(), "way")
            await opened.ask("migrate-incoming", uri="fd:way")

    async def _take(self, folder: VmFolder, file: VmFile) -> None:
        """Start a VM that has arrived and will not run at its source any more."""
        if file.stage == "landing":
            if await self._machines.process(folder) is None:
                raise LandingRejectedError(f"{folder.vm} did not arrive", hint="")
            await self._await_arrival(folder)
            self._machines.disks.claim(file.order, folder)
            folder.write(msgspec.structs.replace(file, stage="here", is_arriving=True))
        await self.finish_arrival(folder)

    async def finish_arrival(self, folder: VmFolder) -> None:
        """Start a VM whose last word was heard; after a crash in between, once more."""
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
                    raise LandingRejectedError(f"{folder.vm} arrived damaged", hint="")
                await asyncio.sleep(_LOOK_S)


_CANCEL_S = 30.0
_FIRST_RETRY_S, _LAST_RETRY_S = 0.2, 10.0


class Sendings:
    """VMs that leave one host."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._words: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Stop; the next agent repeats a last word that was not answered."""
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
            # Before anything is sent, so that the next agent knows what to do with a VM that stands still.
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
        """Cancel a sending, unless it completed in that moment."""
        with suppress(DriverError, TimeoutError):
            await self._machines.ask(folder, "migrate_cancel")
            async with asyncio.timeout(_CANCEL_S):
                await self._follow(folder)
            self.leave(folder)

    def leave(self, folder: VmFolder) -> VmFile:
        """Note that a copied VM has left, which is final; repeat the last word from now on."""
        _, file = self._machines.known(folder.vm)
        file = msgspec.structs.replace(file, stage="left", is_taken=False)
        folder.write(file)
        return file

    def keep_saying(self, folder: VmFolder) -> None:
        """Repeat the last word for a VM that left under an earlier agent, in the background."""
        word = self._words.get(folder.vm)
        if word is None or word.done():
            self._words[folder.vm] = asyncio.ensure_future(self._say_quietly(folder))

    async def forget(self, vm: str) -> None:
        """Stop repeating it: the VM is to be here again, or gone."""
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
            except LandingRejectedError:
                raise
            except DriverError:
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _LAST_RETRY_S)
                continue
            folder.write(msgspec.structs.replace(file, is_taken=True))
            await self._machines.end(folder)

    async def _progress(self, folder: VmFolder) -> str:
        return str((await self._machines.ask(folder, "query-migrate")).get("status", ""))
