"""Whatever a service does, the run goes on: failures are counted, told, and end as the user chose."""

from __future__ import annotations

import threading

import pytest

from hostler.engine import find_policy
from hostler.errors import InputError
from hostler.sim.fill_experiment import run_fill_experiment
from hostler.sim.scorer.run import fill_with_service, service_only_policy
from tests.ports import silent_port
from tests.sim.scorer.services import Part, asking, playing, small_fleet

FLEET = small_fleet(12)
PLACED = 12


def filled(client, **options):
    return fill_with_service(FLEET, service_only_policy(FLEET), client, 42, **options)


def nonsense(part: Part) -> None:
    part.send(b"<html>welcome</html>")


def not_text(part: Part) -> None:
    part.send(b"\xff\xfe\x00")


def no_scores(part: Part) -> None:
    part.send_json({"points": {}})


def scores_as_a_list(part: Part) -> None:
    part.send_json({"scores": [1, 2]})


def bottomless(part: Part) -> None:
    part.send(b'{"deep": ' + b"[" * 20_000)


def too_high(part: Part) -> None:
    part.send_json({"scores": dict.fromkeys(part.nodes, 101)})


def below_zero(part: Part) -> None:
    part.send_json({"scores": dict.fromkeys(part.nodes, -1)})


def fractions(part: Part) -> None:
    part.send_json({"scores": dict.fromkeys(part.nodes, 49.5)})


def not_a_number(part: Part) -> None:
    part.send(b'{"scores": {"%b": NaN}}' % part.nodes[0].encode())


def unknown_nodes(part: Part) -> None:
    part.send_json({"scores": {"elsewhere": 50}})


def refusing(part: Part) -> None:
    part.send(b'{"error": "no"}', status=400)


def moved_away(part: Part) -> None:
    part.send(b"", status=302)


def failing(part: Part) -> None:
    part.send(b"oops", status=500)


def huge(part: Part) -> None:
    part.send(b" " * 100_000)


def hanging_up(part: Part) -> None:
    part.hang_up()


def hanging_up_half_way(part: Part) -> None:
    part.send(b'{"scores": {', length=1000)
    part.handler.wfile.flush()
    part.hang_up()


@pytest.mark.parametrize(
    ("part", "kind", "says"),
    [
        (nonsense, "not_an_answer", "scores"),
        (not_text, "not_an_answer", "scores"),
        (no_scores, "not_an_answer", "scores"),
        (scores_as_a_list, "not_an_answer", "scores"),
        (bottomless, "not_an_answer", "scores"),
        (too_high, "out_of_range", "101"),
        (below_zero, "out_of_range", "-1"),
        (fractions, "out_of_range", "49.5"),
        (not_a_number, "not_an_answer", "scores"),
        (unknown_nodes, "unknown_node", "elsewhere"),
        (refusing, "status", "400"),
        (moved_away, "status", "302"),
        (failing, "status", "500"),
        (huge, "too_large", "50,000"),
        (hanging_up, "broken_connection", "broke"),
        (hanging_up_half_way, "broken_connection", "broke"),
    ],
)
def test_a_bad_answer_is_counted_and_the_guests_are_decided_without_it(part, kind, says):
    with playing(part, most_answer_bytes=50_000) as client:
        run = filled(client)
    assert run.questions.failures == {kind: PLACED}
    assert says in run.questions.first_failure[kind]
    assert (run.questions.asked, run.questions.answered, run.decided_without) == (PLACED, 0, PLACED)
    without = run_fill_experiment(FLEET, service_only_policy(FLEET), 42)
    assert run.result == without, "ties alone decide"


@pytest.mark.parametrize("is_trickling", [False, True])
def test_a_slow_answer_is_not_waited_for(is_trickling):
    over = threading.Event()

    def slow(part: Part) -> None:
        part.handler.send_response(200)
        part.handler.send_header("Content-Length", "1000")
        if is_trickling:
            part.handler.end_headers()
        while not over.wait(0.02):
            if is_trickling:
                part.handler.wfile.write(b" ")
                part.handler.wfile.flush()
        part.hang_up()

    with playing(slow, timeout_s=0.2, retries=0, give_up_after=2) as client:
        run = filled(client)
        over.set()
    assert run.questions.failures == {"timed_out": 2, "given_up": PLACED - 2}
    assert "within 0.2 s" in run.questions.first_failure["timed_out"]


def test_nobody_there_is_a_failure_like_others():
    with silent_port() as port, asking(f"http://127.0.0.1:{port}/score", give_up_after=3) as client:
        run = filled(client)
    assert run.questions.failures == {"no_connection": 3, "given_up": PLACED - 3}
    assert (run.questions.asked, run.questions.retries) == (3, 6)


def test_a_service_that_recovers_is_asked_again():
    def busy_at_first(part: Part) -> None:
        part.send(b"", status=503) if part.number % 3 else part.send_json({"scores": dict.fromkeys(part.nodes, 7)})

    with playing(busy_at_first, retries=2) as client:
        run = filled(client)
    assert (run.questions.answered, run.questions.retries, run.questions.failures) == (PLACED, 2 * PLACED, {})


def test_retries_wait_twice_as_long_each_time():
    waits: list[float] = []
    with playing(failing, retries=3, backoff_s=0.5) as client:
        client._sleep = waits.append
        filled(client)
    assert waits[:3] == [0.5, 1.0, 2.0]


def test_what_would_not_get_better_is_not_tried_again():
    with playing(refusing) as client:
        assert filled(client).questions.retries == 0


def test_without_an_answer_guests_may_be_refused():
    with playing(nonsense) as client:
        run = filled(client, on_failure="fail")
    assert (run.result.failed, run.refused_for_no_answer, run.decided_without) == (12, PLACED, 0)


def test_without_an_answer_another_policy_may_decide():
    with playing(nonsense) as client:
        run = filled(client, on_failure="fall_back", fall_back=find_policy("gpu_packing"))
    other = run_fill_experiment(FLEET, find_policy("gpu_packing"), 42)
    assert run.result.fragmentation == other.fragmentation
    assert run.result.curves == other.curves
    assert run.decided_without == PLACED - other.failed, "nobody asks where no host fits"


def test_a_policy_to_fall_back_to_must_be_named_and_used():
    with playing(nonsense) as client:
        with pytest.raises(InputError, match="fall back"):
            filled(client, on_failure="fall_back")
        with pytest.raises(InputError, match="fall back"):
            filled(client, fall_back=find_policy("fgd"))


def test_a_node_without_a_score_gets_zero_or_no_guest():
    def only_the_first(part: Part) -> None:
        part.send_json({"scores": {part.nodes[0]: 0}})

    with playing(only_the_first) as client:
        zero = filled(client)
    with playing(only_the_first, missing="refuse") as client:
        refuse = filled(client)
    assert zero.result == run_fill_experiment(FLEET, service_only_policy(FLEET), 42), "all have zero, so ties decide"
    assert zero.questions.missing_scores > 0
    assert refuse.result.curves != zero.result.curves
    assert refuse.questions.failures == {}


def test_a_request_that_is_too_large_is_not_sent():
    sent: list[int] = []
    with playing(lambda part: sent.append(part.number), most_request_bytes=300) as client:
        run = filled(client)
    assert run.questions.failures == {"request_too_large": PLACED}
    assert not sent


@pytest.mark.parametrize("endpoint", ["", "ftp://here/score", "127.0.0.1:5000", "http:///score", "http://[::1/score"])
def test_an_address_that_is_none_is_refused_before_the_run(endpoint):
    with pytest.raises(InputError), asking(endpoint):
        pass


@pytest.mark.parametrize("score", [-0.1, 100.5, "high", None])
def test_the_variant_per_node_checks_its_answers_too(score):
    with playing(lambda part: part.send_json({"score": score}), variant="per_node") as client:
        run = filled(client)
    assert sum(run.questions.failures.values()) == PLACED


def test_a_fraction_is_rounded_in_the_variant_per_node():
    with playing(lambda part: part.send_json({"score": 99.6}), variant="per_node") as client:
        assert filled(client).questions.failures == {}
