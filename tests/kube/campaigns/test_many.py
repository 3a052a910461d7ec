"""A hundred thousand campaigns of all kinds of networks."""

from __future__ import annotations

import pytest

from tests.kube.campaigns.campaigns import play_block


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(100_000, 200_000, 500))
def test_nothing_goes_wrong_in_a_hundred_thousand_campaigns(first):
    play_block(first, None, size=500)
