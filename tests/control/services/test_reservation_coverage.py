"""What a reservation is said to do: which hosts keep it, where it is not wholly held yet, and what others have left."""

from __future__ import annotations

import pytest

from hostler.control.services.reservation_coverage import ReservationCoverage, coverage_text


def found(**more: object) -> ReservationCoverage:
    """Return what three of four hosts keep, with room for others on each."""
    usual = {"fleet": 4, "hosts": 3, "short": 0, "full": 0, "lacking": (), "is_in_force": True}
    return ReservationCoverage(**{**usual, **more})


WAITS = "a part of its room is still in use, and is kept as soon as it is free"


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (found(), "3 of 4 hosts keep it"),
        (found(hosts=1), "1 of 4 hosts keeps it"),
        (found(hosts=0), "none of 4 hosts matches it: it keeps nothing"),
        (found(is_in_force=False), "3 of 4 hosts match it, but it has not begun, or has ended"),
        (found(full=2, lacking=("cpu",)), "3 of 4 hosts keep it; 2 hosts have no cpu left for others than red"),
        (found(full=1, lacking=("cpu",)), "3 of 4 hosts keep it; 1 host has no cpu left for others than red"),
        (
            found(hosts=4, full=4, lacking=("cpu", "memory")),
            "4 of 4 hosts keep it; no host has cpu or memory left for others than red",
        ),
        (
            found(short=2, full=2, lacking=("cpu",)),
            f"3 of 4 hosts keep it; on 2 of them {WAITS}; 2 hosts have no cpu left for others than red",
        ),
        (
            found(fleet=1, hosts=1, short=1, full=1, lacking=("cpu",)),
            f"1 of 1 host keeps it; there {WAITS}; no host has cpu left for others than red",
        ),
    ],
)
def test_it_is_one_sentence(one: ReservationCoverage, text: str) -> None:
    assert coverage_text(one, "red") == text
