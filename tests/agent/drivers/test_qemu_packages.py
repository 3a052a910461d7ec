"""``tools/packages``: quick if nothing is missing, and says what to type if it may not install packages."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.agent.drivers.qemu_setup import ROOT


@pytest.fixture
def run(tmp_path):
    """Run the script with programs of ours in front of the machine's."""

    def run(**programs):
        for name, body in {"apt-get": "echo apt-get was called; exit 1", **programs}.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        command = ["bash", ROOT / "tools" / "packages", tmp_path / "guest"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done

    return run


def test_where_all_is_there_nothing_is_said_or_installed(run, tmp_path):
    done = run(dpkg_query="printf installed", dpkg_deb="exit 1")
    assert done.returncode == 0
    assert "Debian packages" not in done.stdout


def test_who_may_not_install_gets_the_one_command_to_type(run):
    done = run(dpkg_query='for last; do :; done; [ "$last" = qemu-utils ] || printf installed', id="echo 1000")
    assert done.returncode == 0
    assert "  apt-get install --no-install-recommends qemu-utils\n" in done.stdout
    assert "Debian packages   " not in done.stdout, "nothing was tried"
