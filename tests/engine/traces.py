"""Facts that must be refused, or that must change nothing."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.errors import FactError, HostlerError
from hostler.model import Event
from tests.engine.fleet import GIB, essence

ONE = {"guests": 1, "cpu": 1000, "memory": GIB}


def refused(engine: Engine, event: Event, error: type[HostlerError] = FactError) -> HostlerError:
    """Apply an event that must be refused without a trace; return the error."""
    before = essence(engine)
    with pytest.raises(error) as caught:
        engine.apply(event)
    assert essence(engine) == before
    return caught.value


def unheard(engine: Engine, event: Event) -> None:
    """Apply an event that must change nothing."""
    before = essence(engine)
    engine.apply(event)
    assert essence(engine) == before
