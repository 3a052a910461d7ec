"""Many agents of simulated hosts in one process: they share one connection pool, and each has its own host.

They start a few at a time, each after the control plane has let an earlier one in, so that a slow server is not
overloaded. Used by the command ``hostler dev fleet``.
"""

from __future__ import annotations

import asyncio
import random
import resource
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from hostler.agent.boot import boot_id, boottime_ns
from hostler.agent.connection.credentials import CredentialFile, CredentialStore, MemoryCredentials
from hostler.agent.connection.link import PAUSES, AgentTransport, ControlPlaneBusyError, Link, MessageRejectedError
from hostler.agent.drivers.fake import DEEDS, FakeDriver, FakeWires, Fault
from hostler.agent.manifest import FileManifest, Manifest, MemoryManifest
from hostler.agent.messages import HostSize
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.agent.startup import RegistrationNotifier
from hostler.errors import HostlerError, InputError, UnavailableError
from hostler.runtime.backoff import Backoff
from hostler.runtime.transport import Request
from hostler.telemetry.log import QUIET, Log

__all__ = [
    "TOKENS_PATH", "FleetPlan", "SimulatedFleet", "Tokens", "allow_open_files", "fast_loop_factory", "tokens_from_list",
    "tokens_from_server",
]  # fmt: skip

TOKENS_PATH = "/v1/tokens"

Tokens: TypeAlias = Callable[[str], Awaitable[str]]  # a host's name to a token that joins it

_TOKEN_TTL_S = 600


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the hosts of a fleet are like. With a folder, the next fleet finds hosts and their VMs again."""

    names: tuple[str, ...]
    size: HostSize | None = None
    labels: tuple[tuple[str, str], ...] = ()
    storages: tuple[str, ...] = ()
    fail_rate: float = 0.0  # of all deeds, beside the faults
    delays_s: tuple[tuple[str, float], ...] = ()  # by deed
    faults: tuple[Fault, ...] = ()
    at_once: int = 32
    seed: int = 0
    folder: Path | None = None


class SimulatedFleet:
    """Agents of simulated hosts. ``came`` (let in at least once), ``ended`` and ``drivers`` show their progress."""

    def __init__(
        self,
        transport: AgentTransport,
        plan: FleetPlan,
        tokens: Tokens,
        *,
        log: Log = QUIET,
        clock: Callable[[], int] = boottime_ns,
    ) -> None:
        self.came: set[str] = set()
        self.ended: dict[str, HostlerError] = {}
        self.drivers: dict[str, FakeDriver] = {}
        self._transport = transport
        self._plan = plan
        self._tokens = tokens
        self._log = log
        self._clock = clock
        self._wires = FakeWires()
        self._slots = asyncio.Semaphore(plan.at_once)
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._hosts: dict[str, asyncio.Task[None]] = {}
        self._fatal: HostlerError | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Start all agents and run them until stopped, or until none is left; raise the last one's error."""
        hosts: list[asyncio.Task[None]] = []
        life = asyncio.get_running_loop().create_task(self._live(stopping, hosts))
        told = asyncio.get_running_loop().create_task(stopping.wait())
        try:
            await asyncio.wait((life, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.set()
            life.cancel()
            told.cancel()
            await asyncio.gather(life, told, return_exceptions=True)
            for host in list(self._joining.values()):
                host.cancel()
            outcomes = await asyncio.gather(*hosts, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        if self._fatal is not None:
            raise self._fatal
        if len(self.ended) == len(self._plan.names):
            raise next(iter(self.ended.values()))

    def kill(self, name: str) -> None:
        """Stop a host at once, with its agent and VMs, as a power failure would; it reports nothing."""
        host = self._hosts.pop(name, None)
        if host is None:
            return
        host.cancel()
        driver = self.drivers.pop(name, None)
        if driver is not None:
            driver.vms.clear()

    async def _live(self, stopping: asyncio.Event, hosts: list[asyncio.Task[None]]) -> None:
        for name in self._plan.names:
            await self._slots.acquire()
            host = asyncio.get_running_loop().create_task(self._host(name, stopping), name=name)
            self._joining[name] = self._hosts[name] = host
            hosts.append(host)
        done, _ = await asyncio.wait(hosts, return_when=asyncio.FIRST_EXCEPTION)  # leaves them alone when cancelled
        killed = [host for host in done if host.cancelled()]
        if killed and not any(host.exception() for host in done if not host.cancelled()):
            await stopping.wait()  # hosts that were killed are no reason to end, even if no other is left

    async def _host(self, name: str, stopping: asyncio.Event) -> None:
        is_in = asyncio.Event()

        def let_in() -> None:
            self.came.add(name)
            if not is_in.is_set():
                is_in.set()
                self._slots.release()

        try:
            agent = await self._agent(name, let_in)
            self._joining.pop(name, None)  # from here on it stops by itself
            await agent.run(stopping)
        except InputError as error:  # a key that is not accepted: no agent can join
            self._fatal = self._fatal or error
            stopping.set()
        except HostlerError as error:
            self.ended[name] = error
            self._log.warn("a host ended", host=name, why=error.message)
        finally:
            self._joining.pop(name, None)
            if not is_in.is_set():
                self._slots.release()

    async def _agent(self, name: str, let_in: Callable[[], None]) -> Agent:
        plan, rng = self._plan, random.Random(f"{self._plan.seed} {name}")
        folder = plan.folder / name if plan.folder is not None else None
        credentials: CredentialStore = MemoryCredentials()
        manifest: Manifest = MemoryManifest()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            credentials, manifest = CredentialFile(folder / "credential.json"), FileManifest(folder / "records")
        driver = FakeDriver(
            name,
            size=plan.size,
            delays_s=dict(plan.delays_s),
            faults=_faults(plan),
            seed=rng.getrandbits(32),
            state_file=folder / "fake.json" if folder is not None else None,
            wires=self._wires,
        )
        self.drivers[name] = driver
        link = Link(RegistrationNotifier(self._transport, let_in), credentials)
        return Agent(
            link,
            driver,
            manifest,
            AgentSettings(name=name, labels=plan.labels, storages=plan.storages),
            boot=boot_id(),
            run_id=str(uuid.uuid4()),
            token="" if link.identity is not None else await self._token(name, rng),
            clock=self._clock,
            rng=rng,
        )

    async def _token(self, name: str, rng: random.Random) -> str:
        backoff = Backoff(PAUSES, rng)
        while True:
            try:
                return await self._tokens(name)
            except UnavailableError as error:
                self._log.warn("no token yet", why=error.message)
                await asyncio.sleep(backoff.next_wait_s(error.retry_after_s))


def _faults(plan: FleetPlan) -> list[Fault]:
    """Return the faults of one host: each host has its own, since a fault counts how often it came."""
    rate = [Fault(verb=deed, chance=plan.fail_rate) for deed in DEEDS] if plan.fail_rate else []
    return [msgspec.structs.replace(fault) for fault in plan.faults] + rate


def tokens_from_list(names: Sequence[str], tokens: Sequence[str]) -> Tokens:
    """Return a function that gives out existing tokens, in the order of the hosts."""
    if len(tokens) < len(names):
        raise InputError(
            f"{len(tokens)} tokens are too few for {len(names)} hosts", hint="one line each, or an admin's --key-file"
        )
    by_name = dict(zip(names, tokens, strict=False))

    async def give(name: str) -> str:
        return by_name[name]

    return give


class _TokenWish(msgspec.Struct):
    host_name: str
    ttl_s: int


class _TokenAnswer(msgspec.Struct):
    """The part of the answer that is read: the secret of the token."""

    secret: str


def tokens_from_server(transport: AgentTransport, key: str) -> Tokens:
    """Return a function that asks the control plane for a token when a host needs one."""

    async def give(name: str) -> str:
        body = msgspec.json.encode(_TokenWish(name, _TOKEN_TTL_S))
        response = await transport.send(
            Request(method="POST", path=TOKENS_PATH, body=body, credential=key, timeout_s=10.0)
        )
        if response.status in (408, 425, 429) or response.status >= 500:
            raise ControlPlaneBusyError(
                f"the control plane gives no token ({response.status})", retry_after_s=response.retry_after_s
            )
        if response.status in (401, 403, 404):
            raise InputError(
                f"the control plane gives no tokens to this key ({response.status})",
                hint="the key must be an admin's, and the address that of a control plane",
            )
        if response.status not in (200, 201):
            raise MessageRejectedError(
                f"the control plane gives no token for {name} ({response.status})", hint="is the name taken?"
            )
        try:
            answer = msgspec.json.decode(response.body, type=_TokenAnswer)
        except msgspec.DecodeError as error:
            raise InputError(
                f"the answer holds no token: {error}", hint="does the address lead to a control plane?"
            ) from error
        return answer.secret

    return give


def fast_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the faster event loop; None if it is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def allow_open_files(wanted: int) -> None:
    """Raise the limit of open files: a connection or two per host."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise InputError(
            f"so many hosts need {wanted} open files, and this process may have {hard}",
            hint=f"raise the limit with 'ulimit -Hn {wanted}', or run fewer hosts per process",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
