"""A perfect network: only crashes, rivals, nodes that go and pods that change."""

from __future__ import annotations

import pytest

from tests.kube.campaigns.campaigns import blocks, play_block


@pytest.mark.parametrize("first", blocks(0, 500))
def test_nothing_is_bound_twice_overcommitted_lost_or_forgotten(first):
    play_block(first, 0.0)
