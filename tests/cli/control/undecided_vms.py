"""VMs that find no place: waits until that is decided, however long a busy machine needs."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.cli_in_process import Result

_UNDER_WAY = 3
_SPANS_S = (1, 10, 120)


def decided_in_time(create: Callable[[int], Result]) -> Result:
    """Create VMs and wait for so many seconds; again, with others and for longer, where nothing was decided in time."""
    results = map(create, _SPANS_S)
    return next((result for result in results if result.code != _UNDER_WAY), Result(_UNDER_WAY, "", "never decided"))
