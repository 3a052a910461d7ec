"""The guide to these commands can be typed as it stands, and its program runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import MAIN, secret
from tests.cli.control.control_plane_thread import plane

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "vm-commands.md").read_text()
_BLOCK = re.compile(r"^```(console|yaml|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_EXIT = re.compile(r"\s+#\s*exit\s+([0-9]+)\s*$")


def _run(command: str, folder: Path) -> tuple[int, str]:
    """Run a line of the guide: what needs a shell in one, the rest in this process, which is much faster."""
    if command.startswith("hostler "):
        result = hostler(*shlex.split(command, comments=True)[1:])
        return result.code, result.out + result.err
    program = folder / "bin" / "hostler"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{MAIN}\n")
        program.chmod(0o700)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_all_of_it_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOSTLER_")]:
        monkeypatch.delenv(name)
    count = 0
    with plane(tmp_path, "node-1", "node-2", "node-3") as running:
        secret(tmp_path / "admin.key", running.key)
        for kind, text in _BLOCK.findall(GUIDE.replace("http://127.0.0.1:8470", running.address)):
            if kind == "yaml":
                (tmp_path / "vm.yaml").write_text(text)
            elif kind == "python":
                done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
                assert (done.returncode, "web-1 running node-" in done.stdout) == (0, True), done.stderr + done.stdout
            else:
                for line in text.splitlines():
                    command = line.removeprefix("$ ")
                    wanted = int(found[1]) if (found := _EXIT.search(command)) else 0
                    code, said = _run(command, tmp_path)
                    assert code == wanted, f"{command}\n{said}"
                    count += 1
    assert count > 30
