"""The longest time that something took lately."""

from __future__ import annotations

import pytest

from hostler.runtime.stalls import Stalls


class Watch:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_longest_stall_covers_last_minute_and_current_work():
    watch = Watch()
    stalls = Stalls(watch=watch)
    assert stalls.longest_s() == 0
    for seconds in (1, 7, 3):
        with stalls.timing():
            watch.now += seconds
    assert stalls.longest_s() == 7
    with stalls.timing():
        watch.now += 30
        assert stalls.longest_s() == 30
        with stalls.timing():
            assert stalls.longest_s() == 30
    watch.now += 59
    assert stalls.longest_s() == 30
    watch.now += 2
    assert stalls.longest_s() == 0


def test_a_block_that_fails_took_its_time_too():
    watch = Watch()
    stalls = Stalls(watch=watch)

    def fail() -> None:
        with stalls.timing():
            watch.now += 5
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stalls.longest_s() == 5
