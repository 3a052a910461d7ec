"""For all tests: compiled kernels live in the folder that is named by a hash of their sources, as for users.

Random tests draw the same examples in every run, so that a change is judged and not the day's luck; with
``HOSTLER_RANDOM_TESTS=1``, as in ``make test-long``, they look for new ones. How long an example takes says something
about the machine and nothing about the code, so no example has a deadline and none is slow.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from hostler.config import prepare_kernel_cache

# Before any test imports the engine: numba reads its cache folder at import, and would not notice an edited callee.
prepare_kernel_cache()

settings.register_profile(
    "hostler",
    derandomize=os.environ.get("HOSTLER_RANDOM_TESTS") != "1",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("hostler")
