"""Turns an agent into a process: its state folder, its driver by name, its connection, signals.

Used by the command ``hostler agent``, and in parts by ``simulated_fleet``.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from hostler.agent.boot import boot_id, boottime_ns
from hostler.agent.connection.credentials import CredentialFile
from hostler.agent.connection.http import HttpTransport
from hostler.agent.connection.link import (
    AgentRejectedError,
    AgentTransport,
    Link,
    ProtocolOutdatedError,
    ServerResponse,
)
from hostler.agent.driver import Driver, DriverError
from hostler.agent.drivers.fake import FakeDriver, Fault
from hostler.agent.manifest import FileManifest
from hostler.agent.messages import REGISTER_PATH, HostSize
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.agent.watchdog.pulse import PulseFile, is_beating
from hostler.agent.watchdog.watchdog import LeaseFile
from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError
from hostler.runtime.transport import Request
from hostler.telemetry.log import QUIET, Log

__all__ = [
    "Acceleration", "AgentFolder", "DriverKind", "DriverOptions", "RegistrationNotifier", "connect",
    "default_vm_folder",
]  # fmt: skip
__all__ += ["hypervisor_of", "make_driver", "run_agent", "stop_on_signals", "token_command"]

DriverKind: TypeAlias = Literal["fake", "qemu", "libvirt"]
Acceleration: TypeAlias = Literal["auto", "kvm", "tcg"]

_EXIT_AT_ONCE = 130


class DriverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of all drivers; each uses its own. ``storages`` are folders, or pools of libvirt."""

    host: str
    folder: Path  # of the agent
    size: HostSize | None = None
    image_roots: tuple[Path, ...] = ()
    image_origins: tuple[str, ...] = ()
    image_cache_bytes: int = 2**36
    storages: tuple[tuple[str, str], ...] = ()
    libvirt_uri: str = "qemu:///system"
    libvirt_pool: str = "default"
    vm_folder: Path | None = None
    vm_user: str = ""
    vm_uids: str = "1900000000-1901048575"
    acceleration: Acceleration = "auto"
    bridges: tuple[str, ...] = ()
    landing_address: str = "127.0.0.1"
    landing_port: int = 0
    delays_s: tuple[tuple[str, float], ...] = ()  # of the fake, by deed
    faults: tuple[Fault, ...] = ()


def make_driver(kind: DriverKind, options: DriverOptions, *, log: Log = QUIET) -> Driver:
    """Make a driver by its name, importing its requirements only now. ``log`` gets what stays on this host."""
    if kind == "fake":
        return FakeDriver(
            options.host,
            size=options.size,
            delays_s=dict(options.delays_s),
            faults=options.faults,
            seed=zlib.crc32(options.host.encode()),  # hosts fail at different deeds, each at the same ones
            state_file=options.folder / "fake.json",
        )
    if kind == "libvirt":
        from hostler.agent.drivers.libvirt.driver import LibvirtDriver

        return LibvirtDriver(
            options.libvirt_uri,
            pool=options.libvirt_pool,
            storages=dict(options.storages),
            image_roots=options.image_roots,
            bridges=options.bridges,
            acceleration=options.acceleration,
            marks_file=options.folder / "storages.json",
        )
    from hostler.agent.drivers.qemu.driver import QemuDriver
    from hostler.agent.drivers.qemu.settings import QemuSettings

    return QemuDriver(
        QemuSettings(
            folder=options.vm_folder or default_vm_folder(),
            image_roots=options.image_roots,
            storages=tuple((name, Path(place)) for name, place in options.storages),
            bridges=options.bridges,
            user=options.vm_user,
            uids=options.vm_uids,
            acceleration=options.acceleration,
            landing_address=options.landing_address,
            landing_port=options.landing_port,
            image_origins=options.image_origins,
            image_cache_bytes=options.image_cache_bytes,
        ),
        marks_file=options.folder / "storages.json",
        has_vms=any(record.made is not None for record in FileManifest(options.folder / "records").peek()),
        log=log,
    )


def default_vm_folder() -> Path:
    """Return the default folder of QEMU's VMs: a short path that unprivileged users can be let into."""
    return Path("/var/lib/hostler") if os.getuid() == 0 else Path.home() / ".hostler"


def hypervisor_of(kind: DriverKind, options: DriverOptions) -> str:
    """Name what a watchdog beside this driver could stop; empty for VMs that no other process can see."""
    if kind == "libvirt" and not options.libvirt_uri.startswith("test:"):
        return f"libvirt {options.libvirt_uri}"
    if kind == "qemu":
        return f"qemu {options.vm_folder or default_vm_folder()}"
    return ""


class AgentFolder:
    """The state folder of one agent: credential, records, lease. One process at a time holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.credential_file = folder / "credential.json"
        self.credentials = CredentialFile(self.credential_file)
        self.manifest = FileManifest(folder / "records")
        self.lease = LeaseFile(folder / "lease.json")
        self.pulse = PulseFile(folder / "watchdog.json")

    def is_watched(self, hypervisor: str) -> bool:
        """Say whether a watchdog works here now, on this hypervisor."""
        return is_beating(self.pulse.read(), boot=boot_id(), hypervisor=hypervisor, now=boottime_ns())

    def watched_vms(self, hypervisor: str) -> int:
        """Return how many VMs a watchdog that works here now can stop in time; 0 if none works."""
        pulse = self.pulse.read()
        is_watched = is_beating(pulse, boot=boot_id(), hypervisor=hypervisor, now=boottime_ns())
        return pulse.stoppable if pulse is not None and is_watched else 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder if it is missing and keep other agents out of it; the lock ends with its process."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InputError(
                f"{self.folder} cannot be used: {(error.strerror or str(error)).lower()}",
                hint="name a folder that this user may write to with --state-dir",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ConflictError(
                f"another agent works in {self.folder}",
                hint="one agent per folder: stop it, or give another --state-dir",
            ) from error
        try:
            yield
        finally:
            os.close(descriptor)


class RegistrationNotifier:
    """A shared transport that reports when this agent was let in."""

    def __init__(self, transport: AgentTransport, on_registered: Callable[[], None]) -> None:
        self._transport = transport
        self._on_registered = on_registered

    async def send(self, request: Request) -> ServerResponse:
        """Pass a request on."""
        response = await self._transport.send(request)
        if request.path == REGISTER_PATH and response.status in (200, 201):
            self._on_registered()
        return response

    async def close(self) -> None:
        """Do nothing: the connections are not ours alone."""


def connect(server: str, *, authority_file: Path | None = None, is_insecure: bool = False) -> HttpTransport:
    """Return the transport to a server; plain HTTP beyond this machine only if an option allows it."""
    if authority_file is not None and not server.startswith("https://"):
        raise InputError("a certificate file needs an encrypted server", hint="write https://host:port")
    return HttpTransport(server, authority_file=authority_file, is_insecure=is_insecure)


async def run_agent(
    home: AgentFolder,
    driver: Driver,
    transport: AgentTransport,
    settings: AgentSettings,
    *,
    token: str,
    hypervisor: str = "",
    stopping: asyncio.Event,
    log: Log,
) -> None:
    """Run one agent until stopped; with a hypervisor, it checks whether a watchdog works on that."""
    link = Link(RegistrationNotifier(transport, lambda: log.info("registered")), home.credentials)
    agent = Agent(
        link,
        driver,
        home.manifest,
        settings,
        boot=boot_id(),
        run_id=str(uuid.uuid4()),
        token=token,
        lease=home.lease,
        watched_vms=lambda: home.watched_vms(hypervisor),
        log=log,
    )
    try:
        await agent.run(stopping)
    except ProtocolOutdatedError:
        raise
    except AgentRejectedError as error:
        raise AgentRejectedError(error.message, hint=_how_to_join(home, settings.name)) from error
    except DriverError as error:
        raise _as_ending(error) from error
    except OSError as error:
        raise UnavailableError(
            f"the agent cannot continue: {error}",
            hint=f"VMs keep running; is there free space, and may the agent write to {home.folder}?",
        ) from error


def token_command(host: str) -> str:
    """Return the command that lets a host join, or join again, without showing the token to others."""
    return f"(umask 077; hostler token create --host {host} > token)"


def _how_to_join(home: AgentFolder, host: str) -> str:
    """Say how an agent that is locked out, or has never joined, can join."""
    move = f"move {home.credential_file} away, and " if home.credential_file.exists() else ""
    return f"to join, have an admin make a token: {token_command(host)}; {move}start the agent with --token-file token"


def _as_ending(error: DriverError) -> HostlerError:
    """Turn the error of a driver that cannot be opened into one that is not reported as our bug."""
    kind = UnavailableError if error.retryable else InputError
    return kind(f"the driver cannot be used: {error.message}", hint=error.hint)


def stop_on_signals(stopping: asyncio.Event, on_first: Callable[[str], None]) -> None:
    """Stop cleanly on SIGTERM and SIGINT, and at once on a second one; ``on_first`` gets the first one's name."""

    def end(name: str) -> None:
        if stopping.is_set():
            os._exit(_EXIT_AT_ONCE)
        on_first(name)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
