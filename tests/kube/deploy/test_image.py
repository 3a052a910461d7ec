"""The Dockerfile keeps our rules: not root, everything pinned, no secrets and no needless files."""

from __future__ import annotations

import fnmatch
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from hostler import __version__

ROOT = Path(__file__).parents[3]
TEXT = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
LINES = [line.split(None, 1) for line in TEXT.splitlines() if line.strip()]
STAGES = TEXT.split("\nFROM ")[1:]
FINAL = STAGES[-1]


def values(word: str) -> list[str]:
    return [rest for found, rest in LINES if found == word]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, re.MULTILINE))


def test_every_stage_has_the_one_base_that_is_pinned_to_a_patch_release():
    (base,) = values("ARG")
    assert re.fullmatch(r"PYTHON=python:3\.[0-9]+\.[0-9]+-slim-[a-z]+", base)
    assert {line.split()[0] for line in values("FROM")} == {"${PYTHON}"}
    assert "latest" not in TEXT


def test_the_base_is_a_python_that_the_project_supports():
    version = re.search(r"python:3\.([0-9]+)", TEXT)
    assert version is not None
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert f"Programming Language :: Python :: 3.{version[1]}" in classifiers


def test_the_image_ends_as_a_user_without_a_name_and_without_rights():
    users = re.findall(r"^USER (.*)$", FINAL, re.MULTILINE)
    assert users == ["65532:65532"]
    after = FINAL.partition("USER ")[2]
    assert not re.search(r"^(RUN|COPY|ADD|USER root)", after, re.MULTILINE)


def test_packages_come_with_hashes_and_nothing_is_fetched_otherwise():
    for command in values("RUN"):
        for install in re.findall(r"pip install ([^&]*)", command):
            assert "--require-hashes" in install or "--no-deps /opt/wheels/" in install
        assert not re.search(r"\b(apt-get|curl|wget|git)\b", command)
    assert not values("ADD")
    assert "RUN" not in FINAL


def test_nothing_that_looks_like_a_secret_is_set():
    settings = " ".join(values("ENV") + values("ARG")).upper()
    assert not re.search(r"TOKEN|PASSWORD|SECRET|_KEY|CREDENTIAL", settings)


def test_pinned_packages_of_the_image_are_those_that_tests_run_with():
    tested = pins("dev.txt")
    for name in ("kube.txt", "build.txt"):
        assert pins(name)
        assert {key: tested.get(key) for key in pins(name)} == pins(name)


def test_every_package_of_the_extra_is_pinned():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[<>=]", line)[0].lower() for line in extras["kube"]}
    assert names <= set(pins("kube.txt"))


def test_what_is_copied_exists_and_is_let_through():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    kept = [line[1:] for line in lines if line.startswith("!")]
    copied = [word for line in values("COPY") if not line.startswith("--from") for word in line.split()[:-1]]
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(path == one or path.startswith(f"{one}/") for one in kept), path
    assert not any(fnmatch.fnmatch(secret, one) for one in kept for secret in (".git", ".venv", "shared"))


def test_the_line_that_compiles_kernels_runs():
    (line,) = [command for command in values("RUN") if "warm_kernels" in command]
    _, *words = shlex.split(line)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_entry_is_the_scheduler():
    assert values("ENTRYPOINT") == ['["hostler", "kube", "schedule"]']
    assert f"hostler:{__version__}" in (ROOT / "Dockerfile").read_text()


def test_hadolint_has_nothing_to_say():
    hadolint = Path(sys.executable).parent / "hadolint"  # of the pinned packages for development
    done = subprocess.run([str(hadolint), str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
