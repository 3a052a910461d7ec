"""The answer process: follows the log through a pipe and answers questions about the engine.

``process`` starts it as ``python -m hostler.control.books.answers.worker``. It ends when the pipe ends, so it never
outlives its service. It ignores signals, because a terminal or a supervisor sends them to the service too.

The main thread takes messages in order, so a question sees every entry that came before it. It answers explanations
itself. A second thread answers what-ifs one after the other, so that following and explanations continue meanwhile. The
twin of a what-if is made at its turn. A third thread sends a sign of life every second: a stopped process is silent, a
computing one is not.

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
from hostler.control.books.follower import Follower
from hostler.control.kernel_warmup import tune_garbage_collector, warm_up
from hostler.control.own_plugins import OwnPluginSet
from hostler.control.store.history.log import StoredEntry
from hostler.engine import Registry
from hostler.errors import HostlerError, InternalError

__all__ = ["AnswerWorker", "main"]

_NICENESS = 10  # requests and decisions come first on a busy machine
_ALIVE_S = 1.0  # between two signs of life; a small part of the silence that the service bears
_SWITCH_S = 0.001  # an explanation waits no longer than this for its turn beside a what-if


class AnswerWorker:
    """A follower of the log, and the questions on its twins."""

    def __init__(self, replies: Connection) -> None:
        self._following = Lock()  # held while the follower changes, and while a twin of it is made
        self._follower = Follower.begin()
        self._registry: Registry | None = None
        self._trouble = "nothing was read yet"
        self._replies = replies
        self._sending = Lock()
        self._what_ifs = ThreadPoolExecutor(1, thread_name_prefix="hostler-what-if")

    def take(self, message: Message) -> None:
        """Handle a message."""
        match message:
            case WarmUp(settings=settings):
                self._registry = OwnPluginSet(settings).registry
                warm_up(settings)
            case Begin(state=state):
                with self._following:
                    self._follower, self._trouble = Follower.resume(state, self._registry), ""
                tune_garbage_collector()
            case FollowEntries(entries=entries):
                with self._following:
                    self._read(entries)
            case EngineQuestion(is_long=True):
                self._what_ifs.submit(self._answer, message)
            case EngineQuestion():
                self._answer(message)
            case _:
                raise InternalError(f"{type(message).__name__} is no message for this end", hint="please report it")

    def _read(self, entries: tuple[StoredEntry, ...]) -> None:
        if self._trouble:
            return
        try:
            self._follower.read(entries)
        except Exception as error:  # the service has read them: it says from where to continue
            self._trouble = f"{type(error).__name__}: {error}"

    def _answer(self, ask: EngineQuestion) -> None:
        try:
            data = encode(self._ask_twin(ask))
        except HostlerError as error:
            data = encode(QuestionFailure(ask.number, error))
        except Exception as error:  # also one of pickling the answer
            lines = "".join(traceback.format_exception(error))
            data = encode(QuestionFailure(ask.number, InternalError(f"a question failed: {error}\n{lines}")))
        self._send(data)

    def _ask_twin(self, ask: EngineQuestion) -> QuestionResult | OutOfStep:
        """Answer on a twin that is made now: each twin is as large as the engine, so waiting what-ifs have none."""
        with self._following:
            if self._trouble:
                return OutOfStep(ask.number, self._trouble)
            twin, seq = self._follower.engine.fork(), self._follower.seq
            self._follower.show(twin, ask.now_ns)
        return QuestionResult(ask.number, pickle.loads(ask.question)(twin, seq))

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
    worker = AnswerWorker(replies)
    Thread(target=worker.show_life, name="hostler-alive", daemon=True).start()
    try:
        with suppress(EOFError, OSError):  # the service closed its end, or is gone
            while True:
                worker.take(decode(messages.recv_bytes()))
    except Exception:  # it ends here and now: without a reader of messages, signs of life must end
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # no caller waits for the what-if that still runs


if __name__ == "__main__":
    main()
