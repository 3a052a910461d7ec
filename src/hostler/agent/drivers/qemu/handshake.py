"""How one host shows another that it may send a VM there: both prove the landing's secret, and neither says it.

One TCP port per host takes all of this. A connection begins with a challenge; a sender with the right proof
gets the connection for one purpose: ``stream`` (what follows on it is the VM, encrypted by QEMU with a key made from
the same secret) or ``run`` (the sender's last word: it never runs here again, let it run there).

Connections that have proved nothing are bounded in time, per address and in total. A new one is always let in and an
older one goes for it, so strangers crowd out each other and never a sender. After the proof a VM has a few connections
of its own, which no other VM's sender and no stranger can use up.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Literal, TypeVar

import msgspec

from hostler.agent.driver import DriverError, Landing, PermanentError

__all__ = ["Handler", "LandingPort", "LandingRejectedError", "knock", "stream_key"]

Purpose = Literal["stream", "run"]
Handler = Callable[[str, Purpose, socket.socket], Awaitable[None]]

_Message = TypeVar("_Message", bound=msgspec.Struct)

_LONGEST_LINE = 2048
_PATIENCE_S = 60.0  # the other side may have to start QEMU before it answers
_GREETING_S = 10.0
_BACKLOG = 128
_MOST_UNPROVEN = 32  # connections that have proved nothing yet
_MOST_OF_ADDRESS = 8  # of them, from one address
_MOST_OF_VM = 4  # proved ones of one VM: a sender whose connection broke comes again while the old one ends


class LandingRejectedError(DriverError):
    """The other side answers and rejects the VM."""

    code = "landing_refused"


class _Challenge(msgspec.Struct):
    challenge: str


class _Request(msgspec.Struct):
    vm: str
    purpose: Purpose
    nonce: str
    proof: str


class _Answer(msgspec.Struct):
    proof: str
    reason: str = ""
    may_pass: bool = False  # the same again may work


def stream_key(secret: str) -> str:
    """Return the key with which QEMU encrypts a migration, in hexadecimal digits."""
    return hmac.new(secret.encode(), b"stream-key", hashlib.sha256).hexdigest()


async def knock(landing: Landing, vm: str, purpose: Purpose) -> socket.socket:
    """Connect to a landing and prove the secret; return the connection, positioned behind the handshake."""
    connection = await _connect(landing.address)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            challenge = (await _read(connection, _Challenge)).challenge
            nonce = secrets.token_hex(16)
            proof = _proof(landing.secret, "sender", purpose, vm, challenge, nonce)
            await _write(connection, _Request(vm=vm, purpose=purpose, nonce=nonce, proof=proof))
            answer = await _read(connection, _Answer)
        if not _is_same(answer.proof, _proof(landing.secret, "landing", purpose, vm, challenge, nonce)):
            reason = answer.reason[:200] or "it does not know the secret"
            if answer.may_pass:
                raise DriverError(f"{landing.address} cannot take {vm} now: {reason}", hint="it is tried again")
            raise LandingRejectedError(
                f"{landing.address} does not take {vm}: {reason}", hint="prepare the landing again"
            )
    except (OSError, EOFError, msgspec.DecodeError) as error:
        connection.close()
        raise DriverError(
            f"{landing.address} does not answer as a landing: {error}", hint="it is tried again"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


class _UnprovenConnections:
    """Tasks that serve connections without a proof, with their addresses; the oldest come first."""

    def __init__(self) -> None:
        self._addresses: dict[asyncio.Task[None], str] = {}

    def admit(self, task: asyncio.Task[None], address: str) -> None:
        """Take in a new one; if there are too many, end the oldest of its address, or of the address with most."""
        counts = Counter(self._addresses.values())
        crowded = ""
        if counts[address] >= _MOST_OF_ADDRESS:
            crowded = address
        elif len(self._addresses) >= _MOST_UNPROVEN:
            crowded = counts.most_common(1)[0][0]  # of equal ones, that of the oldest connection
        if crowded:
            oldest = next(one for one, of in self._addresses.items() if of == crowded)
            self.release(oldest)
            oldest.cancel()
        self._addresses[task] = address

    def release(self, task: asyncio.Task[None] | None) -> None:
        """Remove a connection that has proved its secret, or ended."""
        if task is not None:
            self._addresses.pop(task, None)


class LandingPort:
    """The port of one host.

    ``secret_of`` returns the secret that opens the landing of a VM. A connection that proved it goes to ``handler``;
    one that proves nothing within ``greeting_s`` is closed.
    """

    def __init__(self, secret_of: Callable[[str], str], handler: Handler, greeting_s: float = _GREETING_S) -> None:
        self._secret_of = secret_of
        self._handler = handler
        self._greeting_s = greeting_s
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unproven = _UnprovenConnections()
        self._proven: Counter[str] = Counter()  # connections by VM
        self._dummy = secrets.token_hex(32)

    def open(self, address: str, port: int) -> int:
        """Listen; return the port."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        self._listen()
        taken: int = listener.getsockname()[1]
        return taken

    async def close(self) -> None:
        """Stop listening, and end all handshakes."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._unproven.release)
        return task

    def _listen(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        """Take one connection. This is no task: one that is cancelled loses a connection that it just accepted."""
        loop = asyncio.get_running_loop()
        try:
            connection, (host, *_) = listener.accept()
        except BlockingIOError:  # a guest that left while it waited
            return
        except OSError:  # too many open files
            loop.remove_reader(listener)
            loop.call_later(0.1, self._listen)
            return
        connection.setblocking(False)
        task = self._begin(self._serve(connection))
        # One that is ended before it began would leave its connection open.
        task.add_done_callback(functools.partial(_close, connection))
        self._unproven.admit(task, _network_of(host))

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                await self._talk(connection)
            except (OSError, EOFError, msgspec.DecodeError, TimeoutError):
                return  # a stranger, or one that went away: it can come again

    async def _talk(self, connection: socket.socket) -> None:
        challenge = secrets.token_hex(16)
        async with asyncio.timeout(self._greeting_s):
            await _write(connection, _Challenge(challenge))
            request = await _read(connection, _Request)
        vm, purpose, nonce = request.vm, request.purpose, request.nonce
        secret = self._secret_of(vm) or self._dummy  # whether a VM is awaited here is no stranger's business
        if not _is_same(request.proof, _proof(secret, "sender", purpose, vm, challenge, nonce)):
            await _answer(connection, _Answer(proof="", reason="no such landing, or not its secret"))
            return
        if self._proven[vm] >= _MOST_OF_VM:
            await _answer(connection, _Answer(proof="", reason="it is being taken already", may_pass=True))
            return
        self._unproven.release(asyncio.current_task())
        self._proven[vm] += 1
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._handler(vm, purpose, connection)
            answer = _Answer(proof=_proof(secret, "landing", purpose, vm, challenge, nonce))
        except DriverError as error:
            is_final = isinstance(error, (PermanentError, LandingRejectedError))
            answer = _Answer(proof="", reason=error.message[:500], may_pass=not is_final)
        finally:
            self._proven -= Counter({vm: 1})
        await _answer(connection, answer)


def _proof(secret: str, *parts: str) -> str:
    text = b"\0".join(part.encode() for part in parts)
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def _is_same(given: str, right: str) -> bool:
    # As bytes: texts are compared in constant time only where they are ASCII, and this one is a stranger's.
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


async def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    connection = None
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        async with asyncio.timeout(_GREETING_S):
            await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    except (OSError, ValueError, OverflowError) as error:
        if connection is not None:
            connection.close()
        raise DriverError(f"the landing at {address!r} cannot be reached: {error}", hint="it is tried again") from error
    return connection


def _close(connection: socket.socket, _task: asyncio.Task[None]) -> None:
    connection.close()


def _network_of(address: str) -> str:
    """Return what counts as one address: of IPv6 a whole /64, since a host may have all of it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address


async def _answer(connection: socket.socket, answer: _Answer) -> None:
    async with asyncio.timeout(_GREETING_S):  # one that does not read keeps no connection
        await _write(connection, answer)


async def _write(connection: socket.socket, message: msgspec.Struct) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, msgspec.json.encode(message) + b"\n")


async def _read(connection: socket.socket, kind: type[_Message]) -> _Message:
    # Byte by byte: what comes after the line is for QEMU.
    line = b""
    while not line.endswith(b"\n"):
        byte = await asyncio.get_running_loop().sock_recv(connection, 1)
        if not byte or len(line) >= _LONGEST_LINE:
            raise EOFError("it hung up")
        line += byte
    return msgspec.json.decode(line, type=kind)
