"""Cells on the workers of a Dask cluster, found by the address of its scheduler.

Workers need the same version of Hostler, and the files that cells name, under the same paths.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hostler._version import __version__
from hostler.errors import InputError, UnavailableError
from hostler.sim.extras import missing_extra
from hostler.sim.sweeps.cells import CellRun, SweepCell, failed_result, run_cell_bytes
from hostler.sim.sweeps.executors import dead_process_result

__all__ = ["run_on_dask"]

_CONNECT_S = 5  # a scheduler that is there answers within milliseconds
_LOGGERS = ("distributed.comm", "distributed.client", "distributed.batched", "distributed.core")
_HINT = "start one with 'dask scheduler', and workers with 'dask worker ADDRESS'"


def run_on_dask(cells: Sequence[SweepCell], address: str) -> Generator[CellRun, None, None]:
    """Run cells on the cluster whose scheduler has this address."""
    dask = _distributed()
    with _quiet(), _connected(dask, address) as client:
        _check_workers(client, address)
        cell_of: dict[str, SweepCell] = {}
        futures = []
        for cell in cells:
            future = client.submit(run_cell_bytes, msgspec.json.encode(cell), pure=False)
            cell_of[future.key] = cell
            futures.append(future)
        for future in dask.as_completed(futures, loop=client.loop):
            yield _done(dask, future, cell_of[future.key], address)
            future.release()


def _done(dask: Any, future: Any, cell: SweepCell, address: str) -> CellRun:  # noqa: ANN401
    if future.status == "finished":
        return CellRun(*future.result())
    if future.status != "error":
        raise UnavailableError(
            f"the Dask scheduler at {address} has gone", hint="finished cells are kept: start the same sweep again"
        )
    error = future.exception()
    if isinstance(error, dask.KilledWorker):
        return dead_process_result(cell)
    result = failed_result(cell, f"{type(error).__name__}: {error}")
    return CellRun(msgspec.json.encode(result, order="sorted"), 0.0)


def _distributed() -> Any:  # noqa: ANN401 (most of it has no types)
    try:
        return import_module("distributed")
    except ImportError:
        raise missing_extra("sweeps on Dask", "distributed", "dask") from None


@contextmanager
def _connected(dask: Any, address: str) -> Iterator[Any]:  # noqa: ANN401
    try:
        _knock(address)
        client = dask.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except ValueError as error:
        raise InputError(f"{address!r} is no address of a Dask scheduler: {error}", hint="tcp://HOST:8786") from None
    except (OSError, TimeoutError):
        raise UnavailableError(f"no Dask scheduler answers at {address}", hint=_HINT) from None
    try:
        yield client
    finally:
        client.close(timeout=_CONNECT_S)


def _knock(address: str) -> None:
    """Check that a scheduler listens: a client of Dask without one would retry for a while."""
    where = urlsplit(address if "://" in address else f"tcp://{address}")
    if where.scheme in ("tcp", "tls"):
        if where.hostname is None or where.port is None:
            raise ValueError("it has no host or no port")
        socket.create_connection((where.hostname, where.port), timeout=_CONNECT_S).close()


def _check_workers(client: Any, address: str) -> None:  # noqa: ANN401
    """See that there are workers, and that they have this version of Hostler."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError:
        raise UnavailableError(f"the Dask scheduler at {address} has no workers", hint=_HINT) from None
    try:
        versions = client.run(_version)
    except Exception as error:
        raise UnavailableError(
            f"the workers at {address} cannot run Hostler: {type(error).__name__}: {error}",
            hint=f"install hostler {__version__} where they run",
        ) from None
    for worker, version in versions.items():
        if version != __version__:
            raise UnavailableError(
                f"the worker {worker} has hostler {version}, and this is {__version__}", hint="install the same version"
            )


def _version() -> str:
    return __version__


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own words about lost connections away: errors of ours say it."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
