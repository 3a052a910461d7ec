"""Forms say which strategy counts when none is chosen: the project's, where it has one."""

from __future__ import annotations

import httpx
import pytest


@pytest.mark.parametrize("path", ["/what-if", "/vms/new?project=shop"])
def test_form_says_that_the_projects_strategy_beats_the_services(client: httpx.Client, path) -> None:
    assert "The default is that of the project; where it has none, least_loaded" in client.get(path).text
