"""An event loop without waiting: if nothing is ready, the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        events = super().select(0)
        if not events and timeout is None:
            raise RuntimeError("all tasks wait for ever")
        if not events:
            self.now += max(timeout, 0)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def play_virtually(story):
    """Run an async function in virtual time."""
    run_virtually(story())


def run_virtually(main):
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
