"""Whatever goes wrong ends in ``error:`` and ``hint:``, with the right exit code and without a traceback."""

from __future__ import annotations

import json

import click
import pytest

from hostler.cli.lazy import LazyGroup
from hostler.errors import ConflictError, FactError, InternalError, UnavailableError
from tests.cli.cli_in_process import DEMO_FILES, HEAD, hostler

ONE_HOST = "hosts:\n- name: a\n"
ONE_GUEST = "guests:\n- name: g\n"
MINE = "policy: mine\npolicies:\n- name: mine\n"

# What stands in the file, and words that the error and the hint must have.
BAD_FILES = {
    "an unknown key": (HEAD + ONE_HOST + "  capcity: {cpu: 1}\n", ":5: unknown key 'capcity'", "'capacity'"),
    "a wrong type": (HEAD + "hosts: 3\n", ":3: hosts must be a list", "schema"),
    "a number that is none": (HEAD + ONE_HOST + "  capacity: {cpu: .nan}\n", ":5: hosts[0].capacity.cpu", "write it"),
    "an infinite amount": (HEAD + ONE_HOST + "  capacity: {cpu: .inf}\n", ":5: hosts[0].capacity.cpu", "write it"),
    "a negative amount": (HEAD + ONE_HOST + "  capacity: {cpu: -1}\n", "is negative", "zero or more"),
    "an overflow": (HEAD + ONE_HOST + "  capacity: {memory: 9999999Ei}\n", "larger than 2^62", "suffix"),
    "an amount with too many digits": (HEAD + ONE_HOST + f"  capacity: {{cpu: {'9' * 500}}}\n", "cpu", "64 characters"),
    "a priority beyond 32 bits": (HEAD + ONE_GUEST + "  priority: 99999999999\n", ":5: guests[0].priority", "schema"),
    "two hosts of one name": (HEAD + ONE_HOST + "- name: a\n", "host 'a' is declared twice", "rename"),
    "two guests of one name": (HEAD + ONE_GUEST + "- name: g\n", "guest 'g' is declared twice", "rename"),
    "a key that appears twice": (HEAD + ONE_HOST + "  rank: 1\n  rank: 2\n", "'rank' appears twice", "keep one"),
    "an unknown policy": (HEAD + "policy: packk\n" + ONE_HOST, "no policy 'packk'", "'pack'"),
    "a guest with an unknown policy": (HEAD + ONE_GUEST + "  policy: sprad\n", ":5: guest 'g'", "'spread'"),
    "an unknown scorer": (HEAD + MINE + "  scorers: [balancd]\n", "plugin 'balancd'", "'balanced'"),
    "an unknown filter": (HEAD + MINE + "  filters: [taint]\n", "plugin 'taint'", "'taints'"),
    "a scorer as a filter": (HEAD + MINE + "  filters: [balanced]\n", "of the other kind", ""),
    "a weight of zero": (HEAD + MINE + "  scorers: [{name: balanced, weight: 0}]\n", "weight", ""),
    "an unknown argument": (HEAD + MINE + "  scorers: [{name: balanced, args: {x: 1}}]\n", "'x'", ""),
    "a guest on a host that nobody declared": (HEAD + ONE_GUEST + "  host: z\n", "host 'z', which is not", "declare"),
    "bookings that overflow": (
        HEAD
        + ONE_HOST
        + "  capacity: {x: 1}\nguests:\n"
        + "".join(f"- {{name: g{i}, host: a, requests: {{x: 4Ei}}}}\n" for i in range(2)),
        "more than 2^62",
        "",
    ),
    "a file of another kind": ("apiVersion: hostler/v1\nkind: Flet\n", "'Flet'", "'Fleet'"),
    "a configuration": ("apiVersion: hostler/v1\nkind: Config\n", "kind is 'Config'", "--config"),
    "a single word": ("hello\n", "must be a mapping", "apiVersion"),
    "an empty file": ("", "the file is empty", "kind"),
    "only comments": ("# nothing\n", "the file is empty", "kind"),
    "an empty object": ("{}", "no 'apiVersion'", "apiVersion"),
    "half a JSON": ('{"apiVersion": "hostler/v1", ', "not valid", ""),
    "bytes that are no text": ("\x00\x01\x02", "does not allow", "text file"),
    "deep nesting": ("[" * 100_000, "levels deep", ""),
    "an alias that names nothing": (HEAD + "hosts: *nobody\n", "'*nobody'", "declare"),
}


@pytest.mark.parametrize(("content", "error", "hint"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_refused(tmp_path, content, error, hint):
    path = tmp_path / "input.yaml"
    path.write_text(content)
    result = hostler("place", "-f", path)
    assert result.code == 2
    assert result.out == ""
    assert error in result.error
    assert hint in result.hint


def test_an_alias_bomb_is_defused(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    result = hostler("place", "-f", tmp_path / "bomb.yaml")
    assert result.code == 2
    assert "aliases" in result.error


@pytest.mark.parametrize("start", [b"\xff\xfe", b"a: ", b'{"a": ['], ids=["bytes", "yaml", "json"])
def test_fifty_megabytes_of_nonsense_are_refused(tmp_path, start):
    path = tmp_path / "big"
    path.write_bytes(start + b"1, " * (50_000_000 // 3))
    result = hostler("place", "-f", path)
    assert result.code == 2
    assert str(path) in result.error


def test_a_folder_a_missing_file_and_a_file_given_twice(tmp_path):
    folder = hostler("place", "-f", tmp_path)
    missing = hostler("place", "-f", tmp_path / "missing.yaml")
    twice = hostler("place", *DEMO_FILES, *DEMO_FILES)
    assert [one.code for one in (folder, missing, twice)] == [2, 2, 2]
    assert "folder" in folder.error
    assert "no such file" in missing.error
    assert "declared twice" in twice.error


def test_standard_input_is_read_once():
    assert "twice" in hostler("place", "-f", "-", "-f", "-", stdin="x").error


def test_a_bad_configuration_is_refused(tmp_path):
    (tmp_path / "c.yaml").write_text("apiVersion: hostler/v1\nkind: Config\ndefualt_policy: x\n")
    result = hostler("place", *DEMO_FILES, "--config", tmp_path / "c.yaml")
    assert result.code == 2
    assert "'default_policy'" in result.hint


def test_an_unknown_policy_by_flag_or_variable_names_its_origin(monkeypatch):
    by_flag = hostler("place", *DEMO_FILES, "--policy", "sprad")
    assert (by_flag.code, by_flag.error) == (2, "--policy: policy 'sprad' is not known")
    monkeypatch.setenv("HOSTLER_POLICY", "sprad")
    by_variable = hostler("place", *DEMO_FILES)
    assert (by_variable.code, by_variable.error) == (2, "HOSTLER_POLICY: policy 'sprad' is not known")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["plase"], "no such command 'plase'"),
        (["place", "--polcy", "x"], "no such option '--polcy'"),
        (["place"], "missing option '-f' / '--file'"),
        (["place", *DEMO_FILES, "-o", "xml"], "invalid value for '-o' / '--output'"),
        (["place", *DEMO_FILES, "--seed", "-1"], "invalid value for '--seed'"),
        (["explain"], "missing argument 'GUEST'"),
        (["journal", "rplay"], "no such command 'rplay'"),
        (["completion", "tcsh"], "invalid value"),
    ],
)
def test_usage_errors_have_the_same_form(words, error):
    result = hostler(*words)
    assert result.code == 2
    assert result.error.startswith(error)


def test_without_a_command_the_help_is_shown():
    result = hostler()
    assert result.code == 2
    assert "Commands:" in result.err


class TestExitCodes:
    """How exceptions become exit codes, shown with a command that raises."""

    @pytest.fixture
    def failing(self, monkeypatch):
        """Return a function that runs a command which raises."""

        def run(error: BaseException):
            @click.command()
            def fail() -> None:
                raise error

            monkeypatch.setattr(LazyGroup, "get_command", lambda self, ctx, name: fail)
            return hostler("place")

        return run

    @pytest.mark.parametrize(
        ("error", "code"),
        [(FactError("x"), 2), (UnavailableError("x"), 3), (ConflictError("x"), 4), (InternalError("x"), 70)],
    )
    def test_errors_of_ours_have_their_own(self, failing, error, code):
        result = failing(error)
        assert result.code == code
        assert result.error == "x"

    def test_a_bug_is_reported_in_two_lines(self, failing):
        result = failing(ZeroDivisionError("by zero\nand more"))
        assert result.code == 70
        assert result.error == "this is a bug of ours: ZeroDivisionError: by zero and more"
        assert "HOSTLER_TRACEBACK=1" in result.hint

    def test_a_traceback_is_shown_on_request(self, failing, monkeypatch):
        monkeypatch.setenv("HOSTLER_TRACEBACK", "1")
        result = failing(ZeroDivisionError("x"))
        assert "Traceback (most recent call last)" in result.err
        assert result.err.splitlines()[-2].startswith("error: ")

    def test_an_interrupt_is_quiet(self, failing):
        result = failing(KeyboardInterrupt())
        assert result.code == 130
        assert result.err.strip() == ""


def test_json_on_standard_output_is_never_mixed_with_notes():
    items = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    result = hostler("place", "-f", "-", "-o", "json", stdin=text)
    assert result.json["guests"] == []
    assert result.err == "note: Secret s: ignored\n"


@pytest.mark.parametrize("words", [["serve", "--heartbeat", "nan"], ["dev", "fleet", "--fail-rate", "NaN"]])
def test_what_is_no_number_is_in_no_range(words):
    result = hostler(*words)
    assert result.code == 2
    assert "is not a number" in result.err
