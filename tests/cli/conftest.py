"""Keeps the settings of the user who runs the tests away from them."""

from __future__ import annotations

import pytest

from hostler.config import prepare_kernel_cache

# Before anything imports the engine, as the commands do.
prepare_kernel_cache()


@pytest.fixture(autouse=True)
def _settings_of_nobody(monkeypatch, tmp_path):
    for name in ("HOSTLER_CONFIG", "HOSTLER_POLICY", "HOSTLER_TRACEBACK", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))
