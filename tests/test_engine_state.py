"""The check that fronts read ``engine.view``: it finds every way to an engine's state, and nothing else.

``make check``, which is part of ``make test``, finds none in the repository.
"""

from __future__ import annotations

import pytest

from tools.engine_state import reads_of_state


@pytest.mark.parametrize(
    "source",
    [
        "engine.state.guests",
        "self._engine.state",
        "state = self.core.engine.state",
        "anybody.state.cluster.row_of",
        "twin.state.pause = pause",
        "from hostler.engine.state.state import State",
    ],
)
def test_read_of_state_is_found(source: str):
    assert next(reads_of_state(f"\n{source}\n")) == 2


@pytest.mark.parametrize("source", ["engine.view.records", "vm.state", "engine.state_of(record)", "row.state.name"])
def test_other_names_are_left_alone(source: str):
    assert list(reads_of_state(source)) == []
