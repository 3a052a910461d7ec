"""Seeds that failed once: a lease that returned unseen, abandoned evictions, half-placed gangs, and more."""

from __future__ import annotations

import pytest

from tests.kube.campaigns.campaigns import play_block


@pytest.mark.parametrize(
    "seed", [3, 13, 17, 53, 103, 171, 239, 5014, 111066, 112754, 135351, 173215, 174220, 200550, 204306]
)
def test_what_once_went_wrong_goes_well(seed):
    play_block(seed, None, size=1)
