"""A password in ``--database-url`` is warned of where others can see it, and written nowhere."""

from __future__ import annotations

import pytest

from tests.cli.control.test_serve_command import run
from tests.ports import silent_port

SECRET = "s3cr3t-word"
NOWHERE = f"postgresql://hostler:{SECRET}@127.0.0.1:1/hostler"


@pytest.mark.parametrize(
    "words",
    [("serve", "--listen", "127.0.0.1:0"), ("backup", "copy.dump"), ("restore", "--in-place")],
    ids=["serve", "backup", "restore"],
)
def test_a_password_among_the_arguments_is_warned_of_and_not_repeated(words):
    found = run(*words, "--database-url", NOWHERE)
    assert found.returncode in (2, 3), found.stderr
    assert found.stderr.startswith("warning: other users of this machine can read the password in --database-url")
    assert "HOSTLER_DATABASE_URL" in found.stderr
    assert SECRET not in found.stderr + found.stdout


@pytest.mark.parametrize(
    "url",
    [NOWHERE, NOWHERE.replace(":1/", ":port/"), NOWHERE.replace("127.0.0.1", "host with spaces"), f"odd:{SECRET}@x"],
    ids=["unreachable", "no port", "no host", "no database"],
)
def test_a_password_in_the_environment_is_neither_warned_of_nor_written(url):
    found = run("serve", "--listen", "127.0.0.1:0", HOSTLER_DATABASE_URL=url)
    assert found.returncode in (2, 3), found.stderr
    assert "warning" not in found.stderr
    assert "Traceback" not in found.stderr
    assert SECRET not in found.stderr + found.stdout


def test_a_server_that_cannot_be_reached_is_named_with_what_to_do():
    with silent_port() as port:
        url = f"postgresql://hostler:{SECRET}@127.0.0.1:{port}/hostler"
        found = run("serve", "--listen", "127.0.0.1:0", HOSTLER_DATABASE_URL=url)
    assert found.returncode == 3
    assert found.stderr.splitlines()[-2:] == [
        f"error: no PostgreSQL server listens at 127.0.0.1:{port}",
        "hint: start it, or name the right one by --database-url or HOSTLER_DATABASE_URL",
    ]
