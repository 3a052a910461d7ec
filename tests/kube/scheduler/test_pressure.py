"""The window of calls in flight and the circuit breaker."""

from __future__ import annotations

from hostler.kube.scheduler.actions.pressure import Breaker, Window

SECOND = 1_000_000_000


def test_a_window_grows_by_one_for_each_window_of_answers():
    window = Window(64, start=10)
    for _ in range(11):
        window.grow()
    assert window.size == 11


def test_a_window_never_grows_beyond_its_most():
    window = Window(12, start=10)
    for _ in range(1000):
        window.grow()
    assert window.size == 12


def test_overload_halves_the_window_once_for_all_answers_of_that_second():
    window = Window(64, start=32)
    for _ in range(20):
        window.shrink(5 * SECOND)
    assert window.size == 16
    window.shrink(7 * SECOND)
    assert window.size == 8


def test_a_window_is_never_closed_for_good():
    window = Window(64, start=4)
    for at in range(20):
        window.shrink(at * 2 * SECOND)
    assert window.size == 1


def test_the_server_may_ask_for_a_pause():
    window = Window(64)
    window.shrink(10 * SECOND, wait_s=3.0)
    assert window.paused_for(11 * SECOND) == 2.0
    assert window.paused_for(14 * SECOND) == 0.0


def test_a_breaker_opens_after_several_calls_in_a_row_without_an_answer():
    breaker = Breaker(patience=3)
    for _ in range(2):
        breaker.fail(0)
    breaker.succeed()
    for _ in range(2):
        breaker.fail(0)
    assert not breaker.is_open
    breaker.fail(0)
    assert breaker.is_open
    assert breaker.openings == 1


def test_an_open_breaker_lets_one_call_try_after_a_while():
    breaker = Breaker(patience=1, first_s=1.0)
    breaker.fail(0)
    assert breaker.wait_s(0) == 1.0
    assert breaker.wait_s(2 * SECOND) == 0.0
    breaker.begin()
    assert breaker.wait_s(2 * SECOND) > 0  # the others wait for what the one finds
    breaker.succeed()
    assert breaker.wait_s(2 * SECOND) == 0.0
    assert not breaker.is_open


def test_the_wait_grows_while_the_server_stays_away_and_is_bounded():
    breaker = Breaker(patience=1, first_s=1.0, most_s=8.0)
    now, waits = 0, []
    breaker.fail(now)
    for _ in range(6):
        waits.append(breaker.wait_s(now))
        now += int(waits[-1] * SECOND)
        breaker.begin()
        breaker.fail(now)
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_calls_that_were_in_flight_when_it_opened_do_not_lengthen_the_wait():
    breaker = Breaker(patience=1, first_s=1.0)
    for _ in range(30):
        breaker.fail(0)
    assert breaker.wait_s(0) == 1.0
    assert breaker.openings == 1


def test_after_an_answer_the_next_outage_begins_with_a_short_wait():
    breaker = Breaker(patience=1, first_s=1.0)
    breaker.fail(0)
    breaker.begin()
    breaker.fail(SECOND)
    breaker.begin()
    breaker.succeed()
    breaker.fail(10 * SECOND)
    assert breaker.wait_s(10 * SECOND) == 1.0
    assert breaker.openings == 2
