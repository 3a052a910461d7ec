"""The answer process: follows the log through a pipe and answers questions about the engine.

It is started by ``answer_process`` as ``python -m hostler.control.books.answer_worker`` and ends when the pipe does, so
that it never outlives its service. Signals are left to the service: a terminal or a supervisor sends them to both.

The main thread takes messages in their order. A question sees every entry that came before it. Explanations are
answered on the spot. What-ifs are answered one after the other in a second thread, so that following the log and
explanations go on meanwhile. The twin of a what-if is made when it is its turn. A third thread tells the service every
second that the process runs: one that is stopped or hangs is silent, one that computes is not.

Invariant: every question gets a reply, whatever it raises or returns.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock, Thread

from hostler.control.books.answer_messages import (
    Alive,
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
_ALIVE_S = 1.0  # between two signs of life; a small part of the silence that the service bears
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
        try:
            data = encode(self._ask_twin(ask))
        except HostlerError as error:
            data = encode(Failed(ask.number, error))
        except Exception as error:  # also one of pickling the answer
            lines = "".join(traceback.format_exception(error))
            data = encode(Failed(ask.number, InternalError(f"a question failed: {error}\n{lines}")))
        self._send(data)

    def _ask_twin(self, ask: Ask) -> Answer | OutOfStep:
        """Ask a twin that is made now: of what-ifs that wait there are none, since each is as large as the engine."""
        with self._following:
            if self._trouble:
                return OutOfStep(ask.number, self._trouble)
            twin, seq = self._follower.engine.fork(), self._follower.seq
            self._follower.show(twin, ask.now_ns)
        return Answer(ask.number, pickle.loads(ask.question)(twin, seq))

    def show_life(self) -> None:
        """Send signs of life until the service takes no more replies, and end the process then."""
        data = encode(Alive())
        with suppress(OSError):
            while True:
                self._send(data)
                time.sleep(_ALIVE_S)
        os._exit(0)  # the service is gone, or has given this process up

    def _send(self, data: bytes) -> None:
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
    Thread(target=worker.show_life, name="hostler-alive", daemon=True).start()
    try:
        with suppress(EOFError, OSError):  # the service closed its end, or is gone
            while True:
                worker.take(decode(messages.recv_bytes()))
    except Exception:  # it ends here and now: signs of life must not go on beside a what-if when nobody takes messages
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # a what-if that goes on is of no use to anybody


if __name__ == "__main__":
    main()
