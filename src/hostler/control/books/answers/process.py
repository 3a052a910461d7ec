"""The service's side of its answer process: starts it, keeps it up to date, asks it, and restarts it.

All threads of a service share one interpreter, so what-ifs and explanations of one tenant would slow down all requests.
A separate process (``worker``) computes them at a lower priority.

::

    absent --start--> started --begin--> in step --read, ask--> in step
       ^                 ^                  |
       +---- it ended ---+-- forget, out of step, too far behind

The process starts with the first question, or with ``start``. A question waits until the process has the follower's
state. A question that is lost with the process, or finds it out of step, is sent once more.

A question may take any time while the process sends signs of life. If the process is silent for too long, it is killed,
its questions get UnavailableError, and the next question starts a new process.

Invariant: messages are sent in the order in which they are queued. So a question sees every entry that was passed to
``read`` before it.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from hostler.control.books.answers.answerers import EngineSource, Question, check_waiting
from hostler.control.books.answers.messages import (
    Alive,
    Begin,
    EngineQuestion,
    FollowEntries,
    Message,
    OutOfStep,
    QuestionFailure,
    QuestionResult,
    WarmUp,
    decode,
    encode,
)
from hostler.control.settings import ControlSettings
from hostler.control.store.history.log import StoredEntry
from hostler.errors import UnavailableError

__all__ = ["ProcessAnswerer"]

T = TypeVar("T")

_COMMAND = (sys.executable, "-P", "-m", "hostler.control.books.answers.worker")  # -P: no module of the working folder
_MOST_UNSENT = 20_000  # entries: a process that is further behind begins again
_TRIES = 2
_END_S = 5.0
_SILENCE_S = 60.0
_START_S = 60.0  # until the first sign of life, if the limit of silence is shorter: modules are loaded before it
_LOOKS = 5  # for signs of life within the limit


class _OutOfStepError(Exception):
    """The process has to begin again before it answers."""


class _EndedError(Exception):
    """The process ended before it answered."""


class ProcessAnswerer:
    """Answers in a process of its own; see ``answerers.Answerer``."""

    def __init__(
        self,
        settings: ControlSettings,
        warn: Callable[[str], None] = lambda line: None,
        *,
        silence_s: float = _SILENCE_S,
    ) -> None:
        self._settings = settings
        self._warn = warn
        self._silence_s = silence_s
        self._source: EngineSource | None = None
        self._process: _Process | None = None
        self._is_in_step = False
        self._beginning = asyncio.Lock()
        self._is_closed = False

    def attach(self, source: EngineSource) -> None:
        """Set the source of the engine."""
        self._source = source

    def read(self, entries: Sequence[StoredEntry]) -> None:
        """Pass new entries to the process."""
        if not self._is_in_step or self._process is None or self._process.has_ended:
            return
        if self._process.unsent > _MOST_UNSENT:
            self._is_in_step = False
            return
        self._process.send(FollowEntries(tuple(entries)), weight=len(entries))

    def forget(self) -> None:
        """Let the process begin again before the next question."""
        self._is_in_step = False

    async def start(self) -> None:
        """Start the process now, so that the first question need not wait; that question meets a failure."""
        with suppress(UnavailableError):
            await self._begin()

    async def explain(self, question: Question[T]) -> T:
        """Answer a question that takes milliseconds."""
        return await self._ask(question, is_long=False)

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds."""
        if self._process is not None:
            check_waiting(self._process.what_ifs - 1)  # the first one does not wait
        return await self._ask(question, is_long=True)

    async def _ask(self, question: Question[T], *, is_long: bool) -> T:
        assert self._source is not None, "attach comes first"
        for _ in range(_TRIES):
            process = await self._begin()
            try:
                answer: T = await process.ask(question, self._source.now_ns(), is_long=is_long)
                return answer
            except _OutOfStepError as error:
                self._warn(f"the answer process could not follow the log and begins again: {error}")
                self._is_in_step = False
            except _EndedError:
                self._check_open()
                self._warn(f"the answer process ended with exit code {process.wait()} and is started again")
        raise UnavailableError(
            "the process that answers questions failed", hint="ask again; the service's log says why"
        )

    async def _begin(self) -> _Process:
        """Return the process, started and in step with the log."""
        assert self._source is not None, "attach comes first"
        async with self._beginning:
            self._check_open()
            if self._process is None or self._process.has_ended:
                self._is_in_step = False
                self._process = await asyncio.to_thread(
                    _Process, asyncio.get_running_loop(), self._warn, self._silence_s
                )
                self._process.send(WarmUp(self._settings))
            if not self._is_in_step:
                state = await self._source.follower_state()
                # Nothing is awaited from here on, so that no entry is read in between.
                self._process.send(Begin(state))
                self._is_in_step = True
            return self._process

    def _check_open(self) -> None:
        if self._is_closed:
            raise UnavailableError("the service is stopping", hint="ask again when it has started")

    async def close(self) -> None:
        """End the process; waiting questions get UnavailableError."""
        self._is_closed = True
        async with self._beginning:  # one that is just being started is ended, too
            if self._process is not None:
                await asyncio.to_thread(self._process.close)


class _Process:
    """One run of the answer process: pipes, a thread that sends, and one that takes answers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, warn: Callable[[str], None], silence_s: float) -> None:
        """Start the process; UnavailableError. Not in the event loop."""
        self._loop = loop
        self._warn = warn
        self._silence_s = silence_s
        self._popen, self._messages, self._replies = _start()
        self._queue: SimpleQueue[tuple[Message, int] | None] = SimpleQueue()
        self._asked: dict[int, tuple[asyncio.Future[object], bool]] = {}
        self._count = 0
        self.unsent = 0  # entries that the process has not taken
        self.has_ended = False
        self._is_silent = False
        self._silent_s = min(0.0, silence_s - _START_S)  # since the last sign of life, as far as this service ran
        self._threads = [Thread(target=work, daemon=True) for work in (self._send_all, self._take_all)]
        for thread in self._threads:
            thread.start()
        self._in_loop(self._watch)

    @property
    def what_ifs(self) -> int:
        """How many what-ifs run, including those whose caller is gone."""
        return sum(is_long for _, is_long in self._asked.values())

    def send(self, message: Message, *, weight: int = 0) -> None:
        """Queue a message; in the event loop."""
        self.unsent += weight
        self._queue.put((message, weight))

    async def ask(self, question: Question[T], now_ns: int, *, is_long: bool) -> T:
        """Ask, and wait for the answer; _OutOfStepError, _EndedError, UnavailableError, what the question raises."""
        if self.has_ended:
            raise self._end_error()
        pickled = pickle.dumps(question)
        self._count += 1
        number, future = self._count, self._loop.create_future()
        self._asked[number] = (future, is_long)
        self.send(EngineQuestion(number, pickled, now_ns, is_long))
        return await future  # type: ignore[no-any-return]

    def wait(self) -> int:
        """Return the exit code of a process that has ended."""
        return self._popen.wait()

    def close(self) -> None:
        """End the process and the threads; not in the event loop."""
        self._queue.put(None)
        try:
            self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        for thread in self._threads:
            thread.join()

    def _send_all(self) -> None:
        # Without this end the process ends, so that no question waits for a message that could not be sent.
        with self._messages, suppress(OSError):  # it has ended: ``_take_all`` ends the questions
            while (item := self._queue.get()) is not None:
                message, weight = item
                self._messages.send_bytes(encode(message))
                if weight:
                    self._in_loop(self._note_sent, weight)

    def _take_all(self) -> None:
        try:
            with self._replies, suppress(EOFError, OSError):
                while True:
                    self._in_loop(self._settle, decode(self._replies.recv_bytes()))
        finally:  # also after a reply that could not be read: what was asked would wait for good
            self._popen.kill()  # of no effect on one that has ended
            self._popen.wait()
            self._in_loop(self._end)

    def _in_loop(self, work: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            self._loop.call_soon_threadsafe(work, *arguments)

    def _note_sent(self, weight: int) -> None:
        self.unsent -= weight

    def _settle(self, reply: Message) -> None:
        self._silent_s = 0.0
        if isinstance(reply, Alive) or self.has_ended:
            return
        assert isinstance(reply, QuestionResult | QuestionFailure | OutOfStep)
        future, _ = self._asked.pop(reply.number)
        if future.done():  # the caller has gone away
            return
        match reply:
            case QuestionResult(result=result):
                future.set_result(result)
            case QuestionFailure(error=error):
                future.set_exception(error)
            case OutOfStep(why=why):
                future.set_exception(_OutOfStepError(why))

    def _watch(self) -> None:
        """Check for signs of life regularly; kill a process that shows none.

        It counts checks, not time: a service that was suspended itself sees no time gone by.
        """
        if self.has_ended:
            return
        if self._silent_s >= self._silence_s:
            self._warn(f"the answer process showed no sign of life for {self._silence_s:g} s and is killed")
            self._is_silent = True
            self._popen.kill()
            self._end()  # at once: even a killed process may take its time to end
            return
        look_s = self._silence_s / _LOOKS
        self._silent_s += look_s
        self._loop.call_later(look_s, self._watch)

    def _end_error(self) -> Exception:
        if not self._is_silent:
            return _EndedError()
        return UnavailableError(
            f"the process that answers questions showed no sign of life for {self._silence_s:g} s",
            hint="ask again; another one is started",
        )

    def _end(self) -> None:
        self.has_ended = True
        self._queue.put(None)
        asked, self._asked = self._asked, {}
        for future, _ in asked.values():
            if not future.done():
                future.set_exception(self._end_error())


def _start() -> tuple[subprocess.Popen[bytes], Connection, Connection]:
    """Start the answer process; return it, the pipe for messages and the one of replies. UnavailableError."""
    with ExitStack() as its_ends, ExitStack() as our_ends:
        try:
            stdin, messages = os.pipe()
            its_ends.callback(os.close, stdin)
            our_ends.callback(os.close, messages)
            replies, stdout = os.pipe()
            its_ends.callback(os.close, stdout)
            our_ends.callback(os.close, replies)
            popen = subprocess.Popen(_COMMAND, stdin=stdin, stdout=stdout)
        except OSError as error:
            raise UnavailableError(
                f"the process that answers questions cannot be started: {error.strerror}",
                hint="ask again; if it repeats, raise the service's limits of open files, processes and memory",
            ) from error
        our_ends.pop_all()  # they stay open
    return popen, Connection(messages, readable=False), Connection(replies, writable=False)
