"""Scenarios in time: which guest runs where and when, what happens to hosts, and that no guest is lost or doubled."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.engine import BUILT_IN, find_policy
from hostler.errors import HostlerError
from hostler.model import CPU, amount_of
from hostler.queries import with_mixes
from hostler.sim.scenarios import run_scenario
from hostler.sim.scenarios.history import DROPPED, FINISHED, GAVE_UP, RUNNING, WAITING
from hostler.sim.scenarios.outcome import measure
from hostler.sim.scenarios.simulation import play_scenario, simulate
from tests.sim.small_scenarios import SECOND, play_small, scenario, stays, stream

TWO_HOSTS = [{"name": name, "capacity": {"cpu": 4, "memory": "8Gi"}} for name in "ab"]


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_guest_runs_its_duration_and_leaves():
    scene = scenario(arrivals=[stream("g", 1, 2)])
    history = play_small(scene)
    assert stays(scene, history, "g-0") == [("a", 0.0, 3600.0)]
    assert history.status.tolist() == [FINISHED]


def test_a_guest_that_fits_nowhere_waits_until_another_leaves():
    scene = scenario(arrivals=[stream("g", 3, 2)])
    history = play_small(scene)
    assert stays(scene, history, "g-2") == [("a", 3600.0, 7200.0)]
    assert history.waited_ns.tolist() == [0, 0, 3600 * SECOND]


def test_fixed_end_of_a_guest_does_not_move_when_it_waits():
    scene = scenario(ends="fixed_end", arrivals=[stream("early", 2, 2, "1h"), stream("late", 1, 2, "2h", start="30m")])
    assert stays(scene, play_small(scene), "late-0") == [("a", 3600.0, 9000.0)]


def test_guest_gives_up_if_its_fixed_end_passes_before_it_starts():
    scene = scenario(ends="fixed_end", arrivals=[stream("g", 3, 2)])
    history = play_small(scene)
    assert history.status.tolist() == [FINISHED, FINISHED, GAVE_UP]


def test_refused_guests_are_dropped_where_the_scenario_says_so():
    scene = scenario(queue={"refused": "drop"}, arrivals=[stream("g", 3, 2)])
    assert play_small(scene).status.tolist() == [FINISHED, FINISHED, DROPPED]


def test_guests_give_up_after_their_patience():
    scene = scenario(queue={"give_up_after": "10m"}, arrivals=[stream("g", 3, 2)])
    history = play_small(scene)
    assert history.status.tolist() == [FINISHED, FINISHED, GAVE_UP]
    assert history.waited_ns[2] == 600 * SECOND


def test_a_guest_that_never_fits_does_not_keep_a_scenario_from_ending():
    scene = scenario(arrivals=[stream("g", 1, 100), stream("small", 2)])
    assert play_small(scene).status.tolist() == [WAITING, FINISHED, FINISHED]


def test_scenario_ends_with_its_last_event_not_with_failed_attempts():
    scene = scenario(arrivals=[stream("g", 1, 100), stream("small", 2)])
    assert play_small(scene).ends_ns == 3600 * SECOND


def test_a_scenario_ends_at_its_end_although_guests_still_run():
    scene = scenario(until="30m", arrivals=[stream("g", 1, 2)])
    history = play_small(scene)
    assert (history.status.tolist(), history.ends_ns) == ([RUNNING], 1800 * SECOND)


def test_time_is_compressed_between_arrivals_and_not_within_durations():
    workload = scenario(arrivals=[stream("g", 3, every_s=100)]).workload.with_compressed_arrivals(10)
    assert workload.arrives_ns.tolist() == [0, 10 * SECOND, 20 * SECOND]
    assert workload.runs_ns.tolist() == [3600 * SECOND] * 3


# -- priorities, gangs ------------------------------------------------------------------------------------------------


def test_of_those_who_wait_the_more_important_go_first():
    scene = scenario(
        arrivals=[
            stream("now", 2, 2),
            stream("low", 1, 4, start="1m"),
            stream("high", 1, 4, start="2m", guest={"priority": 5}),
        ]
    )
    history = play_small(scene)
    assert stays(scene, history, "high-0") == [("a", 3600.0, 7200.0)]
    assert stays(scene, history, "low-0") == [("a", 7200.0, 10800.0)]


def test_an_evicted_guest_begins_again():
    scene = scenario(arrivals=[stream("low", 1, 4), stream("high", 1, 4, start="30m", guest={"priority": 5})])
    history = play_small(scene, "kubernetes")
    assert stays(scene, history, "low-0") == [("a", 0.0, 1800.0), ("a", 5400.0, 9000.0)]
    assert (history.counted["evictions"], history.counted["lost_work_ns"]) == (1, 1800 * SECOND)


def test_an_evicted_guest_that_saves_its_progress_goes_on_from_there():
    low = stream("low", 1, 4, checkpoint="20m")
    scene = scenario(arrivals=[low, stream("high", 1, 4, start="30m", guest={"priority": 5})])
    history = play_small(scene, "kubernetes")
    assert stays(scene, history, "low-0") == [("a", 0.0, 1800.0), ("a", 5400.0, 7800.0)]


def test_an_evicted_guest_takes_its_time_to_leave():
    low, high = stream("low", 1, 4), stream("high", 1, 4, start="30m", guest={"priority": 5})
    scene = scenario(grace="5m", arrivals=[low, high])
    history = play_small(scene, "kubernetes")
    assert stays(scene, history, "high-0") == [("a", 2100.0, 5700.0)]


def test_a_gang_waits_until_all_its_members_fit():
    scene = scenario(
        hosts=TWO_HOSTS, arrivals=[stream("there", 1, 4), stream("team", 2, 4, start="1m", gangs={"size": 2})]
    )
    history = play_small(scene)
    assert {stay for n in range(2) for stay in stays(scene, history, f"team-{n}")} == {
        ("a", 3600.0, 7200.0),
        ("b", 3600.0, 7200.0),
    }


def test_a_gang_in_one_rack_waits_for_a_rack():
    hosts = [{"name": f"h{n}", "capacity": {"cpu": 4}, "labels": {"rack": str(n // 2)}} for n in range(4)]
    team = stream("team", 2, 4, start="1m", gangs={"size": 2, "topology": "rack"})
    blockers = [stream(f"in{n}", 1, 4, guest={"host_selector": {"rack": str(n)}}) for n in range(2)]
    scene = scenario(hosts=hosts, arrivals=[*blockers, team])
    history = play_small(scene)
    places = {stays(scene, history, f"team-{n}")[0][:2] for n in range(2)}
    assert places in ({("h0", 3600.0), ("h1", 3600.0)}, {("h2", 3600.0), ("h3", 3600.0)})


def test_restarted_member_does_not_wait_for_finished_members():
    team = stream("team", 2, 4, gangs={"size": 2})
    slow = {**team, "duration": {"kind": "lognormal", "median": "1h", "sigma": 1.0}}
    scene = scenario(hosts=TWO_HOSTS, arrivals=[slow], failures=[{"at": "30m", "repair": "10m"}])
    history = play_small(scene)
    assert history.status.tolist() == [FINISHED, FINISHED]


# -- hosts ------------------------------------------------------------------------------------------------------------


def test_what_ran_on_a_failed_host_begins_again_elsewhere():
    scene = scenario(
        hosts=TWO_HOSTS, arrivals=[stream("g", 2, 3)], failures=[{"host": "a", "at": "30m", "repair": "3h"}]
    )
    history = play_small(scene)
    victim = next(name for name in ("g-0", "g-1") if stays(scene, history, name)[0][0] == "a")
    assert stays(scene, history, victim) == [("a", 0.0, 1800.0), ("b", 3600.0, 7200.0)]
    assert history.counted["host_failures"] == 1


def test_a_repaired_host_takes_guests_again():
    scene = scenario(arrivals=[stream("g", 1, 3)], failures=[{"host": "a", "at": "30m", "repair": "1h"}])
    assert stays(scene, play_small(scene), "g-0") == [("a", 0.0, 1800.0), ("a", 5400.0, 9000.0)]


def test_guests_of_a_host_in_maintenance_keep_progress_and_pay_the_move():
    scene = scenario(
        hosts=TWO_HOSTS,
        arrivals=[stream("g", 1, 3, guest={"requests": {"cpu": 3, "memory": "2Gi"}})],
        maintenance=[{"host": "a", "at": "30m", "lasts": "1h"}, {"host": "b", "at": "30m", "lasts": "1s"}],
        migration={"downtime": "10s", "per_gib": "5s"},
    )
    history = play_small(scene)
    where = stays(scene, history, "g-0")
    assert [stay[1:] for stay in where] == [(0.0, 1800.0), (pytest.approx(1801, abs=1), pytest.approx(3621, abs=1))]
    assert history.counted["migrations"] == 1


def test_guests_that_stay_keep_their_host_in_maintenance_and_nobody_comes():
    scene = scenario(
        arrivals=[stream("g", 1, 1, "2h"), stream("late", 1, 1, start="40m")],
        maintenance=[{"host": "a", "at": "30m", "lasts": "1h", "guests": "stay"}],
    )
    history = play_small(scene)
    assert stays(scene, history, "g-0") == [("a", 0.0, 7200.0)]
    assert stays(scene, history, "late-0") == [("a", 5400.0, 9000.0)]


def test_outages_of_one_host_that_overlap_end_with_the_last():
    scene = scenario(
        arrivals=[stream("g", 1, 1, "1h", start="40m")],
        failures=[{"host": "a", "at": "30m", "repair": "1h"}, {"host": "a", "at": "35m", "repair": "2h"}],
    )
    assert stays(scene, play_small(scene), "g-0") == [("a", 2 * 3600.0 + 35 * 60, 3 * 3600.0 + 35 * 60)]


# -- the kernel and the engine agree ----------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    "hosts": [
        {"name": "h", "count": 12, "capacity": {"cpu": 16, "memory": "64Gi", "guests": 20}, "labels": {"zone": "x"}},
        {"name": "g", "count": 4, "capacity": {"cpu": 32, "memory": "64Gi"}, "labels": {"zone": "y"},
         "devices": [{"kind": "gpu", "model": "T4", "count": 4}]},
    ],
    "arrivals": [
        {"guest": {"name": "web", "requests": {"cpu": 2, "memory": "4Gi"}, "priority": 3}, "count": 150,
         "pattern": {"kind": "daily", "per_hour": 60}},
        {"guest": {"name": "batch", "requests": {"cpu": 8, "memory": "8Gi"}, "labels": {"app": "b"},
                   "spread": [{"topology": "zone", "max_skew": 2, "selector": {"app": "b"}}]}, "count": 100,
         "pattern": {"kind": "bursts", "per_hour": 6, "burst": 8}},
        {"guest": {"name": "part", "requests": {"cpu": 4}, "devices": [{"kind": "gpu", "milli": 400}]}, "count": 100,
         "pattern": {"kind": "poisson", "per_hour": 40}, "duration": {"kind": "lognormal", "median": "2h"}},
        {"guest": {"name": "stays", "requests": {"cpu": 1}}, "count": 10, "duration": {"kind": "forever"}},
    ],
    "queue": {"refused": "drop"},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - {"kubernetes"}))
def test_a_replay_by_the_kernel_is_what_the_engine_decides_fact_by_fact(name):
    scene = scenario(**PLAIN)
    (policy,) = with_mixes([find_policy(name)], scene.workload.specs)
    assert scene.is_plain
    fast, slow = play_scenario(scene, policy, 3), simulate(scene, policy, 3)
    for column in ("at_ns", "guest", "row", "sign", "counts", "devices", "status", "starts", "ends_ns"):
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column), column)
    assert (fast.status == DROPPED).any(), "the fleet is too large to refuse anybody"
    assert msgspec.json.encode(measure(scene, name, 3, fast)) == msgspec.json.encode(measure(scene, name, 3, slow))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    policy=st.sampled_from(["spread", "first_fit", "random", "fgd", "round_robin"]),
    burst=st.integers(1, 30),
    cores=st.integers(1, 8),
)
def test_any_plain_scenario_is_replayed_as_decided(seed, policy, burst, cores):
    bursts = {
        "guest": {"name": "b", "requests": {"cpu": cores}},
        "count": 100,
        "pattern": {"kind": "bursts", "per_hour": 10, "burst": burst},
    }
    scene = scenario(read_with=seed, **{**PLAIN, "arrivals": [bursts, PLAIN["arrivals"][2]]})
    (chosen,) = with_mixes([find_policy(policy)], scene.workload.specs)
    fast, slow = play_scenario(scene, chosen, seed), simulate(scene, chosen, seed)
    np.testing.assert_array_equal(fast.row, slow.row)
    np.testing.assert_array_equal(fast.guest, slow.guest)


# -- nothing is lost --------------------------------------------------------------------------------------------------

ROUGH: dict[str, Any] = {
    "hosts": [{"name": "h", "count": 5, "capacity": {"cpu": 8, "memory": "32Gi"}, "labels": {"zone": "z"}}],
    "arrivals": [
        {"guest": {"name": "web", "requests": {"cpu": 2}, "priority": 5}, "count": 60, "pattern": {"per_hour": 30}},
        {"guest": {"name": "team", "requests": {"cpu": 3}}, "count": 24, "gangs": {"size": 3}, "checkpoint": "10m",
         "pattern": {"kind": "bursts", "per_hour": 4, "burst": 6}},
    ],
    "grace": "20s",
    "failures": [{"mean_between": "5h", "repair": "30m"}],
    "maintenance": [{"hosts": {"zone": "z"}, "at": "1h", "lasts": "10m", "stagger": "15m"}],
}  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), policy=st.sampled_from(["kubernetes", "spread", "pack"]))
def test_no_guest_is_lost_or_doubled_and_no_host_is_overfull(seed, policy):
    scene = scenario(read_with=seed, **ROUGH)
    history = play_small(scene, policy, seed)
    assert (history.status == FINISHED).all(), "a guest never finished"
    running = np.zeros(len(scene.workload), dtype=np.int64)
    used = np.zeros(len(scene.workload.hosts), dtype=np.int64)
    for at, guest, row, sign in zip(history.at_ns, history.guest, history.row, history.sign, strict=True):
        running[guest] += sign
        used[row] += sign * amount_of(scene.workload.spec(int(guest)).requests, CPU)
        assert 0 <= running[guest] <= 1, f"guest {guest} runs twice at {at}"
        assert 0 <= used[row] <= 8000
    assert not running.any()
    assert not used.any()
    assert (np.diff(history.at_ns) >= 0).all()
    done = np.zeros(len(scene.workload), dtype=np.int64)
    np.add.at(done, history.guest, -history.sign * history.at_ns)
    assert (done >= scene.workload.runs_ns).all(), "a guest ended before its work was done"


def test_the_same_seed_gives_the_same_bytes():
    encode = msgspec.json.encode
    one, two = (run_scenario(scenario(**ROUGH), find_policy("kubernetes"), 5) for _ in range(2))
    assert encode(one) == encode(two)


def test_another_seed_gives_other_arrivals():
    first, second = (scenario(read_with=seed, **ROUGH).workload.arrives_ns for seed in (1, 2))
    assert not np.array_equal(first, second)


# -- figures ----------------------------------------------------------------------------------------------------------


def test_utilisation_is_the_mean_over_time():
    scene = scenario(arrivals=[stream("g", 1, 2, "1h"), stream("later", 1, 4, "1h", start="1h")])
    outcome = run_scenario(scene, find_policy("spread"), 1)
    assert outcome.span_s == 7200
    assert outcome.cpu_mean == pytest.approx(0.75)
    assert outcome.cpu_peak == 1.0


def test_waiting_times_are_told_by_priority_and_by_size():
    scene = scenario(arrivals=[stream("g", 2, 4), stream("small", 1, 1, start="1m", guest={"priority": 7})])
    outcome = run_scenario(scene, find_policy("spread"), 1)
    assert outcome.waits_by_priority["0"].longest == 7200
    assert outcome.waits_by_size["up to 1 core"].guests == 1
    assert outcome.waits.guests == 3


def test_room_that_nobody_can_use_is_stranded():
    hosts = [{"name": "a", "capacity": {"cpu": 5, "memory": "8Gi"}}]
    scene = scenario(hosts=hosts, every="10m", arrivals=[stream("g", 1, 4)])
    outcome = run_scenario(scene, find_policy("spread"), 1)
    assert outcome.series.stranded_cpu[0] == pytest.approx(0.2)


def test_hosts_are_overloaded_when_guests_use_more_than_they_have():
    scene = scenario(
        hosts=[{"name": "a", "capacity": {"cpu": 4}, "overcommit": {"cpu": 2}}],
        every="1h",
        arrivals=[stream("g", 4, 2, "24h", load={"mean": 0.5, "swing": 0.5, "peak": "12h"})],
    )
    outcome = run_scenario(scene, find_policy("spread"), 1)
    busy = [at for at, hosts in zip(outcome.series.at_s, outcome.series.overloaded_hosts, strict=True) if hosts]
    assert busy
    assert 6 * 3600 < min(busy) < 12 * 3600 < max(busy) < 18 * 3600


# -- files that are wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"arrivals": [{**stream("g", 1), "patern": {}}]}, "unknown key 'patern'"),
        ({"arrivals": [stream("g", 1, lasts="soon")]}, "is not a duration"),
        ({"arrivals": [stream("g", 0)]}, ">= 1"),
        ({"arrivals": [stream("g", 1)], "hosts": []}, "has no hosts"),
        ({}, "neither arrivals nor a trace"),
        ({"arrivals": [stream("g", 1), stream("g", 1)]}, "two guests have one name"),
        ({"arrivals": [stream("g", 1)], "failures": [{"host": "z", "at": "1h"}]}, "names no host"),
        ({"arrivals": [stream("g", 1, gangs={"size": 2, "min_count": 3})]}, "larger than the size"),
        ({"arrivals": [stream("g", 1, guest={"host": "a"})]}, "has a host or a count"),
        ({"arrivals": [{**stream("g", 9), "pattern": {"per_hour": 1e-6}}]}, "73 years"),
        ({"arrivals": [stream("g", 1)], "guests": [{"name": "x"}]}, "has no host"),
        ({"arrivals": [stream("g", 1)], "until": "0s"}, "until is zero"),
        ({"arrivals": [stream("g", 1, lasts="-1h")]}, "'-1h' is negative"),
        ({"arrivals": [stream("g", 1)], "every": "0"}, "every is zero"),
        ({"arrivals": [stream("g", 2, gangs={"size": 3})]}, "larger than the count"),
        ({"hosts": [], "trace": {"path": "openb", "compress": 0.0001}}, "73 years"),
        ({"hosts": [], "trace": {"path": "openb", "compress": 1e-300}}, "73 years"),
        ({"arrivals": [stream("g", 1)], "failures": [{"mean_between": "1ns", "repair": "1ns"}]}, "failures"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(parts, problem):
    with pytest.raises(HostlerError) as caught:
        scenario(**parts)
    assert problem in str(caught.value)
    assert "scene" in str(caught.value)


def test_number_that_yaml_reads_as_text_gets_a_hint():
    with pytest.raises(HostlerError) as caught:
        scenario(arrivals=[{**stream("g", 9), "pattern": {"per_hour": "1e3"}}])
    assert caught.value.hint == "write 1.0e+3"
