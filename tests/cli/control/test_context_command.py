"""``hostler context``: which control planes are known, and nothing of their keys."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from hostler.cli.main import cli
from hostler.control.client.contexts import contexts_file
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret

HOME = "http://127.0.0.1:8470"


@pytest.fixture
def key(tmp_path):
    return secret(tmp_path / "admin.key", "the-key\n")


@pytest.fixture(autouse=True)
def _nothing_is_named(monkeypatch):
    for name in ("SERVER", "KEY_FILE", "CA_FILE", "PROJECT", "CONTEXT"):
        monkeypatch.delenv(f"HOSTLER_{name}", raising=False)


def test_the_first_context_is_the_current_one(key):
    assert hostler("context", "set", "home", "--server", HOME, "--key-file", key).out == (
        f"context home: {HOME}, the current one\n"
    )
    hostler("context", "set", "work", "--server", "https://work.example", "--key-file", key, "-p", "team-a")
    assert hostler("context", "list").lines == [
        "   NAME  SERVER                 PROJECT",
        f"*  home  {HOME}  default",
        "   work  https://work.example   team-a",
    ]
    assert hostler("context", "use", "work").code == 0
    assert hostler("context", "show", "-o", "json").json["name"] == "work"


def test_the_key_is_copied_to_where_nobody_else_reads_it(key):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    key.unlink()
    [kept] = (contexts_file().parent / "keys").iterdir()
    assert kept.read_text() == "the-key\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for words in (("list", "-o", "wide"), ("show",), ("show", "-o", "yaml")):
        assert "the-key" not in hostler("context", *words).out


def test_a_key_comes_from_standard_input():
    assert hostler("context", "set", "home", "--server", HOME, "--key-file", "-", stdin="piped-key\n").code == 0
    [kept] = (contexts_file().parent / "keys").iterdir()
    assert kept.read_text() == "piped-key\n"


def test_a_context_without_a_key_says_so():
    assert "it has no key" in hostler("context", "set", "home", "--server", HOME).err


def test_a_further_context_is_not_the_current_one_and_says_so(key):
    hostler("context", "set", "old", "--server", "http://127.0.0.1:9", "--key-file", key)
    result = hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    assert result.err == "note: the current one is still old: 'hostler context use home' chooses this one\n"
    assert hostler("context", "set", "old", "--project", "team-b").err == ""


def test_without_the_current_context_none_is_current_and_that_is_reported(key):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    hostler("context", "set", "work", "--server", HOME, "--key-file", key)
    result = hostler("context", "remove", "home")
    assert result.err == "note: no context is the current one now: 'hostler context use work' chooses the only one\n"
    hostler("context", "use", "work")
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    assert hostler("context", "remove", "home").err == ""


def test_an_environment_that_beats_the_current_context_is_named(key, monkeypatch):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    assert hostler("context", "list").err == ""
    monkeypatch.setenv("HOSTLER_SERVER", "https://elsewhere.example")
    monkeypatch.setenv("HOSTLER_PROJECT", "team-b")
    told = "note: HOSTLER_SERVER, HOSTLER_PROJECT of the environment override the current context\n"
    for words in (("list",), ("show",), ("use", "home")):
        assert hostler("context", *words).err == told
    assert hostler("context", "list", "-o", "json").err == ""


@pytest.mark.parametrize("option", ["--context", "--server", "--project", "-p"])
def test_an_option_of_a_command_before_the_command_is_reported_where_it_goes(option):
    result = hostler(option, "bad", "vm", "list")
    assert (result.code, result.error) == (2, f"no such option '{option}'")
    assert result.hint == f"it goes behind the command: 'hostler vm list {option} …'"


def test_what_is_not_named_stays(key):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    hostler("context", "set", "home", "--project", "team-b")
    found = hostler("context", "show", "home", "-o", "json").json
    assert (found["server"], found["project"], bool(found["key_file"])) == (HOME, "team-b", True)


def test_a_key_does_not_move_to_another_server_by_mistake(key):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    result = hostler("context", "set", "home", "--server", "https://evil.example")
    assert (result.code, result.error) == (2, f"the key of home is for {HOME}")


def test_an_address_that_strangers_can_read_along_needs_a_word(key):
    words = ("context", "set", "far", "--server", "http://far.example", "--key-file", key)
    assert hostler(*words).error == "http://far.example is not on this machine and not encrypted"
    assert hostler(*words, "--insecure").code == 0


def test_a_removed_context_is_gone_with_its_key(key):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    assert hostler("context", "remove", "home").code == 0
    assert hostler("context", "list").err == "there are no contexts: 'hostler context set' creates one\n"
    assert not list((contexts_file().parent / "keys").iterdir())


@pytest.mark.parametrize("words", [("use", "nobody"), ("show", "nobody"), ("remove", "nobody"), ("show",)])
def test_a_context_that_is_not_there_is_an_error(words):
    result = hostler("context", *words)
    assert result.code == 2
    assert result.error


def test_a_command_without_a_context_says_what_to_do():
    result = hostler("vm", "list")
    assert (result.code, result.error) == (2, "no control plane is named")
    assert result.hint.startswith("hostler context set")


def test_where_no_context_is_the_current_one_the_others_are_named(key):
    for name in ("ci", "home", "work"):
        hostler("context", "set", name, "--server", HOME, "--key-file", key)
    said = "'hostler context use NAME' chooses one: home, work"
    assert hostler("context", "remove", "ci").err == f"note: no context is the current one now: {said}\n"
    assert hostler("vm", "list").hint == said
    hostler("context", "remove", "work")
    assert hostler("vm", "list").hint == "'hostler context use home' chooses the only one"


def test_a_server_that_is_not_there_is_unavailable(key):
    result = hostler("vm", "list", "--server", "http://127.0.0.1:9", "--key-file", key)
    assert result.code == 3
    assert result.error.startswith("http://127.0.0.1:9 cannot be reached")


def test_names_of_contexts_are_completed(key):
    hostler("context", "set", "home", "--server", HOME, "--key-file", key)
    hostler("context", "set", "work", "--server", HOME, "--key-file", key)
    shell = ShellComplete(cli, {}, "hostler", "_HOSTLER_COMPLETE")
    assert [found.value for found in shell.get_completions(["context", "use"], "w")] == ["work"]
    assert [found.value for found in shell.get_completions(["vm", "list", "--context"], "")] == ["home", "work"]
    assert [found.value for found in shell.get_completions(["vm"], "cr")] == ["create"]


def test_no_completion_is_worth_an_error(key):
    shell = ShellComplete(cli, {}, "hostler", "_HOSTLER_COMPLETE")
    assert shell.get_completions(["vm", "get"], "w") == []


@pytest.mark.parametrize(
    "words",
    [
        "vm --help", "vm create --help", "vm list --help", "vm explain --help", "host list --help", "token --help",
        "context set --help", "operation wait --help", "gang create --help",
    ],
)  # fmt: skip
def test_help_needs_none_of_the_large_packages(words):
    program = (
        "import sys; from hostler.cli.main import main; "
        f"code = main({words.split()!r}); "
        "print([name for name in ('starlette', 'sqlalchemy', 'numpy', 'numba', 'httpx') if name in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"
    assert "Examples:" in done.stdout or "Example:" in done.stdout


def test_the_client_needs_neither_the_service_nor_the_engine():
    program = (
        "import sys; import hostler.control.client; "
        "print([name for name in ('starlette', 'sqlalchemy', 'numpy', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
