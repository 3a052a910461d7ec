"""A notifier fed by PostgreSQL's LISTEN on a connection of its own, which is opened again when it breaks.

Notices of other replicas arrive here; those of this process come directly from its writer.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from sqlalchemy.engine import URL

from hostler.control.store.limits import Limits
from hostler.control.store.notifier import Notifier

__all__ = ["CHANNEL", "PostgresNotifier"]

CHANNEL = "hostler_log"
_LOOK_S = 0.5  # how long closing may take
_AGAIN_S = 1.0


class PostgresNotifier(Notifier):
    """Listens in a thread from the first wait on."""

    def __init__(self, url: URL, limits: Limits) -> None:
        super().__init__()
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._limits = limits
        self._ended = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.is_listening = threading.Event()

    async def wait(self, timeout_s: float, *, since: int | None = None) -> int:
        """Return the count once it is beyond ``since`` (now, if not given), or after the time-out."""
        self.listen()
        return await super().wait(timeout_s, since=since)

    def listen(self) -> None:
        """Begin to listen, if nobody did so before."""
        with self._starting:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="hostler-listen", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread and its connection."""
        with self._starting:
            self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except psycopg.Error:
                self.is_listening.clear()
                self._ended.wait(_AGAIN_S)

    def _follow(self) -> None:
        """Pass on notices until the end, or until the connection breaks."""
        with self._connect() as connection:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self.is_listening.set()
            self.poke()  # something may have happened while nobody listened
            while not self._ended.is_set():
                for _ in connection.notifies(timeout=_LOOK_S, stop_after=1):
                    self.poke()

    def _connect(self) -> psycopg.Connection[Any]:
        timeout = max(2, round(self._limits.connect_s))
        return psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=timeout,
            application_name="hostler-listen",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
