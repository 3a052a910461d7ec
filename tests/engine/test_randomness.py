"""Randomness: published values, and draws that depend on seed, guest, attempt and purpose alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cluster.randomness import BACKOFF, PLACEMENT, draw, guest_key, host_key, mix64, name_hash
from hostler.engine.kernels import devices as kernels_devices
from hostler.model import Guest, Host
from tests.engine.fleet import QUICK

words = st.integers(0, 2**64 - 1)
GOLDEN = 0x9E3779B97F4A7C15  # by which splitmix64's state advances


def test_mixing_gives_the_published_outputs_of_splitmix64():
    # The first outputs of the reference generator (Vigna, splitmix64.c) from the states 0 and 1234567.
    assert [mix64(i * GOLDEN % 2**64) for i in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [mix64((1234567 + i * GOLDEN) % 2**64) for i in range(3)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]  # fmt: skip


@given(word=words)
@QUICK
def test_the_kernel_mixes_alike(word):
    assert int(kernels_devices.mix64(np.uint64(word))) == mix64(word)


@given(one=words, other=words)
@QUICK
def test_mixing_is_one_to_one_and_stays_within_64_bits(one, other):
    assert 0 <= mix64(one) < 2**64
    assert (mix64(one) == mix64(other)) == (one == other)


@given(word=words, bit=st.integers(0, 63))
@QUICK
def test_one_bit_more_or_less_changes_many(word, bit):
    assert (mix64(word) ^ mix64(word ^ (1 << bit))).bit_count() > 8


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        pytest.param("", "e4a6a0577479b2b4", id="nothing"),
        pytest.param("host-1", "bf101c7e369be1e1", id="a plain name"),
        pytest.param("größe", "f4f8e155c9329ae9", id="not ascii"),
    ],
)
def test_names_are_hashed_as_b2sum_does(name, digest):
    # printf host-1 | b2sum -l 64; the digest's first byte is the lowest.
    assert name_hash(name) == int.from_bytes(bytes.fromhex(digest), "little")


def test_a_guest_is_known_by_its_uid_and_a_host_by_its_name():
    assert guest_key(Guest(name="any", uid="u")) == guest_key(Guest(name="other", uid="u", version=7)) == name_hash("u")
    assert host_key(Host(name="h", uid="any")) == host_key(Host(name="h", uid="other", rank=3)) == name_hash("h")


@pytest.mark.parametrize("key", [0, 1, 2**64 - 1])
def test_a_draw_key_stands_in_for_the_name_even_when_it_is_zero(key):
    assert guest_key(Guest(name="g", uid="u", draw_key=key)) == key
    assert host_key(Host(name="h", draw_key=key)) == key


draws = st.tuples(st.integers(-(2**63), 2**63 - 1), words, st.integers(0, 10**6), st.sampled_from([PLACEMENT, BACKOFF]))


@given(one=draws, other=draws)
@QUICK
def test_draws_are_equal_only_where_all_that_they_depend_on_is_equal(one, other):
    assert 0 <= draw(*one) < 2**64
    assert (draw(*one) == draw(*other)) == (one == other)


@given(asked=draws)
@QUICK
def test_every_part_of_a_draw_counts(asked):
    seed, key, attempt, purpose = asked
    others = {
        draw(seed ^ 1, key, attempt, purpose),
        draw(seed, key ^ 1, attempt, purpose),
        draw(seed, key, attempt + 1, purpose),
        draw(seed, key, attempt, PLACEMENT + BACKOFF - purpose),
    }
    assert len(others | {draw(*asked)}) == 5


def test_no_attempt_of_one_purpose_is_an_attempt_of_the_other():
    drawn = [draw(1, 2, attempt, purpose) for attempt in range(1000) for purpose in (PLACEMENT, BACKOFF)]
    assert len(set(drawn)) == 2000


@pytest.mark.parametrize("sides", [2, 3, 10, 1024])
def test_draws_of_neighbours_fall_evenly(sides):
    """Seeds, guests and attempts are small neighbouring numbers; a draw must not show it."""
    throws = 200 * sides
    for counts in (
        Counter(draw(seed, 7, 1, PLACEMENT) % sides for seed in range(throws)),
        Counter(draw(7, name_hash(f"g{i}"), 1, PLACEMENT) % sides for i in range(throws)),
        Counter(draw(7, 7, attempt, BACKOFF) % sides for attempt in range(throws)),
    ):
        # Half of a count of 200 is seven standard deviations.
        assert len(counts) == sides
        assert 100 < min(counts.values()) <= max(counts.values()) < 300
