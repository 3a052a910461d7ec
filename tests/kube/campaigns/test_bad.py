"""A bad network: one request in six goes wrong."""

from __future__ import annotations

import pytest

from tests.kube.campaigns.campaigns import blocks, play_block


@pytest.mark.parametrize("first", blocks(20000, 500))
def test_nothing_is_bound_twice_overcommitted_lost_or_forgotten(first):
    play_block(first, 0.5)
