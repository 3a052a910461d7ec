"""One connection to libvirt in one thread of its own: its calls block, and its errors become those of drivers.

The package is imported when a connection is opened, since it is built from source and few hosts need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from hostler.agent.driver import BlockedError, DriverError, PermanentError, UnsupportedError
from hostler.errors import UnavailableError

__all__ = ["Handle", "LibvirtMissingError", "LibvirtThread"]

T = TypeVar("T")
Handle: TypeAlias = Any  # an object of libvirt, which has no types

_CLOSE_S = 5.0
_BLOCKED = ("NO_STORAGE_POOL", "NO_STORAGE_VOL", "NO_NETWORK", "NO_NWFILTER", "RESOURCE_BUSY")
_PERMANENT = ("XML_ERROR", "XML_DETAIL", "XML_INVALID_SCHEMA", "INVALID_ARG", "INVALID_DOMAIN_NAME", "OS_TYPE")
_UNSUPPORTED = ("NO_SUPPORT", "CONFIG_UNSUPPORTED", "ARGUMENT_UNSUPPORTED", "OPERATION_UNSUPPORTED")


class LibvirtMissingError(UnavailableError):
    """The Python package of libvirt is not installed."""

    code = "libvirt_missing"


class LibvirtThread:
    """Runs work on a connection, one piece after the other, and connects again where the daemon went away meanwhile."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._libvirt: ModuleType | None = None
        self._connection: Handle = None
        self._executor: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Connect."""
        self._libvirt = _import()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="libvirt")
        try:
            await self.call(lambda connection: None)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; a call that hangs is left behind."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        is_done = False
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(executor, self._disconnect), _CLOSE_S)
            is_done = True
        executor.shutdown(wait=is_done, cancel_futures=True)

    async def call(self, work: Callable[[Handle], T]) -> T:
        """Run work on the connection; what libvirt refuses comes out as an error of drivers."""
        if self._executor is None:
            raise DriverError(f"{self.uri} is not open", hint="open the driver first")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, work)

    def is_error(self, error: Exception, *codes: str) -> bool:
        """Say whether libvirt raised this error under one of these codes (without their prefix)."""
        libvirt = self._libvirt
        return (
            libvirt is not None
            and isinstance(error, libvirt.libvirtError)
            and error.get_error_code() in [getattr(libvirt, f"VIR_ERR_{code}", -1) for code in codes]
        )

    def constant(self, name: str) -> int:
        """Return one of libvirt's numbers by its name, without the prefix."""
        value: int = getattr(self._libvirt, f"VIR_{name}")
        return value

    def _run(self, work: Callable[[Handle], T]) -> T:
        assert self._libvirt is not None
        try:
            return work(self._connected())
        except self._libvirt.libvirtError as error:
            raise self._translated(error) from error

    def _connected(self) -> Handle:
        assert self._libvirt is not None
        if not self._is_alive():
            self._disconnect()
            self._connection = self._libvirt.open(self.uri)
        return self._connection

    def _is_alive(self) -> bool:
        assert self._libvirt is not None
        try:
            return self._connection is not None and bool(self._connection.isAlive())
        except self._libvirt.libvirtError:
            return False

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is gone either way
                connection.close()

    def _translated(self, error: Exception) -> DriverError:
        said = f"libvirt: {error}"
        if self.is_error(error, *_UNSUPPORTED):
            return UnsupportedError(said, hint=f"what is behind {self.uri} cannot do this")
        if self.is_error(error, *_PERMANENT):
            return PermanentError(said, hint="order the VM otherwise")
        if self.is_error(error, *_BLOCKED):
            return BlockedError(said, hint="make on this host what is missing; 'virsh' shows what there is")
        return DriverError(said, hint=f"does 'virsh -c {self.uri} list' work for the user of this agent?")


def _import() -> ModuleType:
    try:
        libvirt = import_module("libvirt")
    except ImportError as error:
        raise LibvirtMissingError(
            f"the driver libvirt needs a package that cannot be imported: {error}",
            hint="pip install 'hostler[libvirt]'; it is built from source: Debian's libvirt-dev, pkg-config and gcc",
        ) from error
    libvirt.registerErrorHandler(lambda context, error: None, None)  # else it writes every error to standard error
    return libvirt
