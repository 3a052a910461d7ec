"""Amounts, ages, reasons and verdicts as pages write them."""

from __future__ import annotations

import pytest

from hostler.control.access.names import by_number
from hostler.model import Failure, HostVerdict, Reason, Score
from hostler.model.vocabulary import plural
from hostler.web.host_map import map_density
from hostler.web.texts import (
    age_text,
    ago_text,
    bytes_text,
    cpu_text,
    percent_used,
    time_text,
)
from hostler.web.verdicts import verdicts_of

CPU = Reason("resources", "insufficient", "cpu")
CORDONED = Reason("cordon", "cordoned")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (2**30, "1 GiB"),
        (3 * 2**29, "1.5 GiB"),
        (1500 * 2**30, "1.5 TiB"),
        (2**62, "4,096 PiB"),
    ],
)
def test_bytes_are_written_in_the_largest_unit_that_is_readable(amount: int, text: str) -> None:
    assert bytes_text(amount) == text


def test_processors_are_written_without_needless_digits() -> None:
    assert [cpu_text(millis) for millis in (0, 500, 1000, 1250, 1_024_000)] == ["0", "0.5", "1", "1.25", "1,024"]


def test_what_is_not_full_is_never_a_hundred_percent() -> None:
    assert percent_used(999, 1000) == 99
    assert percent_used(1000, 1000) == 100
    assert percent_used(0, 0) is None
    assert percent_used(3, 2) == 150


def test_ages_and_times() -> None:
    second = 1_000_000_000
    assert [age_text(0, at * second) for at in (5, 61, 7200, 200_000)] == ["5 s", "1 min", "2 h", "2 d"]
    assert age_text(10 * second, 0) == "0 s"  # clocks of two machines differ
    assert time_text(0) == "1970-01-01T00:00:00Z"
    assert ago_text("1970-01-01T00:00:10.500000Z", 70 * second) == "1 min"


def test_counts_have_their_nouns() -> None:
    assert (plural(1, "host"), plural(2000, "host")) == ("1 host", "2,000 hosts")


def test_hosts_that_refuse_alike_are_one_group_and_near_misses_come_first() -> None:
    near = [HostVerdict(host=f"n{at}", failures=(Failure(reason=CPU, needed=2, free=1),)) for at in range(600)]
    far = [HostVerdict(host=f"f{at}", failures=(Failure(reason=CORDONED), Failure(reason=CPU))) for at in range(399)]
    best = HostVerdict(host="best", scores=(Score("utilization", 0.5, -0.0),), total=-0.0)
    found = verdicts_of([best, *near, *far])
    assert (found.count, found.fitting_count) == (1000, 1)
    assert found.fitting[0].total == "0"
    assert [(len(group.hosts), group.reasons) for group in found.groups] == [
        (600, ("insufficient cpu",)),
        (399, ("cordoned", "insufficient cpu")),
    ]
    assert found.groups[0].nearest.host == "n0"
    assert [one.host for one in found.near] == [f"n{at}" for at in range(10)]


def test_the_chosen_host_is_shown_with_its_points_however_many_are_ahead() -> None:
    hosts = [HostVerdict(host=f"h{at}", scores=(Score("free", at, 99 - at),), total=99 - at) for at in range(30)]
    found = verdicts_of(hosts, "h20")
    assert [one.host for one in found.fitting] == [*(f"h{at}" for at in range(10)), "h20"]
    assert (found.fitting[-1].total, found.fitting_count, len(found.more_fitting)) == ("79", 30, 19)
    assert "h20" not in found.more_fitting
    assert not found.is_best
    assert verdicts_of(hosts, "h0").is_best
    assert verdicts_of(hosts).is_best  # nobody was chosen, so nobody is behind


def test_numbers_in_names_of_hosts_count_as_numbers() -> None:
    names = ["host-10", "host-9", "a", "host-9b", "9"]
    assert sorted(names, key=by_number) == ["a", "host-9", "host-9b", "host-10", "9"]


def test_cells_shrink_when_there_are_many() -> None:
    assert [map_density(count) for count in (20, 100, 1000)] == ["roomy", "middle", "dense"]
