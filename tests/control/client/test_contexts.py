"""Which control plane is meant, and whose key is shown where."""

from __future__ import annotations

import stat

import pytest

from hostler.control.client.contexts import (
    ClientContext,
    Contexts,
    TargetOptions,
    contexts_file,
    keep_key,
    load,
    remove,
    resolve_target,
    save,
)
from hostler.control.client.server_target import check_server, read_key
from hostler.errors import InputError, UnknownNameError

HOME, WORK = "http://127.0.0.1:8470", "https://work.example:8443"


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def two():
    """Two contexts, home the current one."""
    contexts = {
        "home": ClientContext(server=HOME, key_file=str(keep_key("home", "home-key"))),
        "work": ClientContext(server=WORK, key_file=str(keep_key("work", "work-key")), project="team-a"),
    }
    save(Contexts(current="home", contexts=contexts))


def resolve(environment=None, **asked):
    return resolve_target(TargetOptions(**asked), environment or {})


def key_file(tmp_path, text="other-key", mode=0o600):
    path = tmp_path / "a.key"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.usefixtures("two")
def test_the_current_context_is_meant_when_none_is_named():
    found = resolve()
    assert (found.server, found.key, found.project) == (HOME, "home-key", "default")


@pytest.mark.usefixtures("two")
def test_the_environment_beats_the_current_context():
    found = resolve({"HOSTLER_CONTEXT": "work"})
    assert (found.server, found.key, found.project) == (WORK, "work-key", "team-a")
    assert resolve({"HOSTLER_PROJECT": "team-b"}).project == "team-b"


@pytest.mark.usefixtures("two")
def test_options_beat_the_environment():
    environment = {"HOSTLER_CONTEXT": "home", "HOSTLER_PROJECT": "team-b", "HOSTLER_SERVER": "http://127.0.0.1:1"}
    found = resolve(environment, context="work")
    assert (found.server, found.key, found.project) == (WORK, "work-key", "team-a")
    assert resolve(environment, context="work", project="team-c").project == "team-c"


@pytest.mark.usefixtures("two")
def test_a_key_is_never_shown_to_another_server():
    with pytest.raises(InputError, match=r"no key for https://evil\.example"):
        resolve(server="https://evil.example")
    with pytest.raises(InputError, match=r"no key for https://evil\.example"):
        resolve({"HOSTLER_SERVER": "https://evil.example", "HOSTLER_CONTEXT": "work"})


@pytest.mark.usefixtures("two")
def test_the_same_server_written_out_keeps_its_key():
    assert resolve(context="home", server=f"{HOME}/").key == "home-key"


def test_a_server_and_a_key_need_no_context(tmp_path):
    found = resolve({"HOSTLER_SERVER": HOME, "HOSTLER_KEY_FILE": key_file(tmp_path)})
    assert (found.server, found.key, found.project) == (HOME, "other-key", "default")


def test_without_any_of_them_it_says_what_to_do():
    with pytest.raises(InputError, match="no control plane is named") as caught:
        resolve()
    assert "hostler context set" in caught.value.hint


@pytest.mark.usefixtures("two")
def test_a_mistyped_context_is_corrected():
    with pytest.raises(UnknownNameError) as caught:
        resolve(context="wrok")
    assert "work" in caught.value.hint


@pytest.mark.usefixtures("two")
def test_nobody_else_reads_what_is_kept():
    kept = [contexts_file(), *(contexts_file().parent / "keys").iterdir()]
    assert len(kept) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert "home-key" not in contexts_file().read_text()


@pytest.mark.usefixtures("two")
def test_a_context_that_goes_takes_its_key_along():
    save(remove(load(), "home"))
    left = load()
    assert (list(left.contexts), left.current) == (["work"], "")
    assert [path.name for path in (contexts_file().parent / "keys").iterdir()] == ["work.key"]


def test_a_name_that_leads_elsewhere_is_refused():
    with pytest.raises(InputError):
        keep_key("../../etc/passwd", "x")


def test_a_key_that_others_may_read_is_refused(tmp_path):
    path = key_file(tmp_path, mode=0o644)
    with pytest.raises(InputError) as caught:
        read_key(path)
    assert caught.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize("text", ["", "\n", "two keys", "x" * 5000, "k\x07y"])
def test_what_is_no_key_is_refused(tmp_path, text):
    with pytest.raises(InputError):
        read_key(key_file(tmp_path, text))


@pytest.mark.parametrize(
    "server", ["", "control", "ftp://x", "http://", "https://a@b", "https://x?y", "https://x:99999"]
)
def test_what_is_no_address_is_refused(server):
    with pytest.raises(InputError):
        check_server(server)


def test_key_is_not_sent_unencrypted_unless_the_user_wants_it():
    with pytest.raises(InputError, match="not encrypted"):
        check_server("http://control.example:8470")
    assert check_server("http://control.example:8470/", is_insecure=True) == "http://control.example:8470"
    assert check_server("http://127.0.0.1:8470") == HOME


def test_a_broken_file_is_named_with_its_line():
    contexts_file().parent.mkdir(parents=True)
    contexts_file().write_text("apiVersion: hostler/v1\nkind: Contexts\ncurent: x\n")
    with pytest.raises(InputError) as caught:
        load()
    assert "contexts.yaml:3" in caught.value.message
