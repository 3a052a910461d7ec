"""Words that are no names, and projects that do not exist, as commands tell of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.control.schemas import KeyCreate
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import ControlPlaneThread

pytestmark = pytest.mark.usefixtures("project")


@pytest.mark.parametrize("word", ["Team A", "", "-a", "a" * 64])
@pytest.mark.parametrize("words", [("project", "create"), ("gang", "create", "--min-count", "2")])
def test_a_word_that_is_no_name_is_refused_in_a_sentence(words: tuple[str, ...], word: str) -> None:
    result = hostler(*words, "--", word)
    assert (result.code, result.error) == (2, f"name: {word[:60]!r} is not a name")
    assert result.hint.startswith("at most 63 letters, digits, '-', '_' and '.'")


@pytest.mark.parametrize(
    "words",
    [
        ("vm", "list", "-p", "tean-a"),
        ("vm", "list", "-p", "tean-a", "-o", "json"),
        ("vm", "queue", "-p", "tean-a"),
        ("vm", "get", "tean-a/x"),
        ("vm", "get", "x", "-p", "tean-a"),
        ("gang", "list", "-p", "tean-a"),
        ("reservation", "list", "-p", "tean-a"),
        ("operation", "list", "-p", "tean-a"),
    ],
)
def test_a_project_that_does_not_exist_is_not_taken_for_an_empty_one(words: tuple[str, ...]) -> None:
    result = hostler(*words)
    assert (result.code, result.out) == (2, "")
    assert result.error == "project tean-a does not exist"
    assert result.hint == "'hostler project list' shows what there is"


def test_a_project_that_exists_may_be_empty(project: str) -> None:
    for words in (("vm", "list"), ("vm", "queue"), ("gang", "list"), ("reservation", "list"), ("operation", "list")):
        assert hostler(*words).code == 0
    assert hostler("vm", "get", "x").error == f"there is no VM 'x' in project {project}"


def test_a_key_that_may_not_read_projects_is_reported_nothing_of_them(
    served: ControlPlaneThread, project: str, tmp_path: Path
) -> None:
    with served.client() as client:
        key = client.keys.create(KeyCreate(name="vms", role="viewer", scopes=["vm.*"])).secret
    file = secret(tmp_path / "vms.key", key)
    assert hostler("vm", "list", "--key-file", file).code == 0
    assert hostler("vm", "get", "x", "--key-file", file).error == f"there is no VM 'x' in project {project}"


def test_a_key_of_one_project_is_reported_how_to_name_it(
    served: ControlPlaneThread, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.client() as client:
        key = client.keys.create(KeyCreate(name="ci", role="viewer", project=project)).secret
    file = secret(tmp_path / "ci.key", key)
    monkeypatch.delenv("HOSTLER_PROJECT")
    result = hostler("vm", "list", "--key-file", file)
    assert (result.code, result.error) == (2, f"this key is for project {project} only, not for project default")
    assert result.hint.startswith(f"name that project with -p {project}")
    assert hostler("vm", "list", "--key-file", file, "-p", project).code == 0
