"""The answer process: follows the log through a pipe and answers questions about the engine.

It is started by ``answer_process`` as ``python -m hostler.control.books.answer_worker`` and ends when the pipe does, so
that it never outlives its service. Signals are left to the service: a terminal or a supervisor sends them to both.

The main thread takes messages in their order. A question sees every entry that came before it. Explanations are
answered on the spot. What-ifs are answered one after the other in a second thread, so that following the log and
explanations go on meanwhile. The twin of a what-if is made when it is its turn.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock

from hostler.control.books.answer_messages import (
    Answer,
    Ask,
    Begin,
    Failed,
    Message,
    OutOfStep,
    Read,
    WarmUp,
    decode,
    encode,
)
from hostler.control.books.follower import Follower
from hostler.control.store.log import Entry
from hostler.control.warming import spare_collector, warm_up
from hostler.errors import HostlerError, InternalError

__all__ = ["Worker", "main"]

_NICENESS = 10  # requests and decisions come first on a busy machine
_SWITCH_S = 0.001  # an explanation waits no longer than this for its turn beside a what-if


class Worker:
    """A follower of the log, and the questions that are asked of its twins."""

    def __init__(self, replies: Connection) -> None:
        self._following = Lock()  # held while the follower changes, and while a twin of it is made
        self._follower = Follower.begin()
        self._trouble = "nothing was read yet"
        self._replies = replies
        self._sending = Lock()
        self._what_ifs = ThreadPoolExecutor(1, thread_name_prefix="hostler-what-if")

    def take(self, message: Message) -> None:
        """Do what a message says."""
        match message:
            case WarmUp(settings=settings):
                warm_up(settings)
            case Begin(state=state):
                with self._following:
                    self._follower, self._trouble = Follower.resume(state), ""
                spare_collector()
            case Read(entries=entries):
                with self._following:
                    self._read(entries)
            case Ask(is_long=True):
                self._what_ifs.submit(self._answer, message)
            case Ask():
                self._answer(message)
            case _:
                raise InternalError(f"{type(message).__name__} is no message for this end", hint="please report it")

    def _read(self, entries: tuple[Entry, ...]) -> None:
        if self._trouble:
            return
        try:
            self._follower.read(entries)
        except Exception as error:  # the service has read them: it says from where to go on
            self._trouble = f"{type(error).__name__}: {error}"

    def _answer(self, ask: Ask) -> None:
        """Ask a twin that is made now: of what-ifs that wait there are none, since each is as large as the engine."""
        with self._following:
            if self._trouble:
                self._reply(OutOfStep(ask.number, self._trouble))
                return
            twin, seq = self._follower.engine.fork(), self._follower.seq
            self._follower.show(twin, ask.now_ns)
        try:
            reply: Message = Answer(ask.number, pickle.loads(ask.question)(twin, seq))
        except HostlerError as error:
            reply = Failed(ask.number, error)
        except Exception as error:
            lines = "".join(traceback.format_exception(error))
            reply = Failed(ask.number, InternalError(f"a question failed: {error}\n{lines}"))
        self._reply(reply)

    def _reply(self, message: Message) -> None:
        data = encode(message)
        with self._sending:
            self._replies.send_bytes(data)


def main() -> None:
    """Answer until the service closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICENESS)
    sys.setswitchinterval(_SWITCH_S)
    messages = Connection(os.dup(0), writable=False)
    replies = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what a plugin prints must not come between replies
    worker = Worker(replies)
    with suppress(EOFError, OSError):  # the service closed its end, or is gone
        while True:
            worker.take(decode(messages.recv_bytes()))
    os._exit(0)  # a what-if that goes on is of no use to anybody


if __name__ == "__main__":
    main()
