"""The commit-msg hook, run as git runs it: with the path of a file that holds the message."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOOK = ROOT / "tools/git-hooks/commit-msg"


def run_hook(folder: Path, message: str) -> subprocess.CompletedProcess[str]:
    path = folder / "COMMIT_EDITMSG"
    path.write_text(message, encoding="utf-8")
    return subprocess.run([HOOK, path], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "message",
    [
        "Fix lost reason when a waiting VM is resized\n",
        "Fix it\n\nThe reason was lost.\n",
        "A" * 72 + "\n",
        "Ä" * 72 + "\n",
        "fixup! " + "a" * 100 + "\n",
        "\n# Lines of git\nFix it\n# On branch main\n\nWhy.\n",
        "Fix it\n\n# ------------------------ >8 ------------------------\ndiff\n",
        "",
    ],
)
def test_good_message_passes_without_output(tmp_path: Path, message: str):
    result = run_hook(tmp_path, message)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("A" * 73 + "\n", "the subject has 73 characters; at most 72 fit"),
        ("fix it\n", "the subject does not begin with a capital letter: fix it"),
        ("Fix it\nThe reason was lost.\n", "the second line is not blank: The reason was lost."),
    ],
)
def test_bad_message_is_rejected_with_its_problem(tmp_path: Path, message: str, error: str):
    result = run_hook(tmp_path, message)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {error}")


@pytest.mark.parametrize("subject", ["Fixed it", "Fixing it", "Fixes it"])
def test_subject_that_is_not_imperative_gets_a_hint(tmp_path: Path, subject: str):
    result = run_hook(tmp_path, f"{subject}\n")
    assert result.returncode == 0
    assert result.stderr.startswith("hint: begin with a verb in the imperative")


def test_make_hooks_has_git_check_commits(tmp_path: Path):
    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    def commit(subject: str) -> int:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        return run("git", *identity, "commit", "--allow-empty", "-m", subject).returncode

    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tools/git-hooks").mkdir(parents=True)
    shutil.copy(HOOK, tmp_path / "tools/git-hooks")
    assert run("git", "init").returncode == 0
    assert commit("fix it") == 0

    assert run("make", "hooks").returncode == 0
    assert commit("fix it") == 1
    assert commit("Fix it") == 0
