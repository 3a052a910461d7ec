"""What ``vm resize`` says that it did: another size, the protection on or off, or nothing at all."""

from __future__ import annotations

from tests.cli.cli_in_process import hostler


def made() -> str:
    """Create a VM that runs, and return where."""
    result = hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300", "-o", "json")
    assert result.code == 0, result.err
    return str(result.json["vm"]["host"])


def test_resize_to_same_size_reports_nothing_to_change_and_no_event(project):
    host = made()
    before = hostler("vm", "events", "web-0", "-o", "json").json
    for words in (("--cpu", "1"), ("--no-protected",), ("--cpu", "1", "--no-protected")):
        result = hostler("vm", "resize", "web-0", *words)
        assert result.code == 0, result.err
        assert result.out == f"{project}/web-0: nothing to change; it is running on {host}\n"
    assert hostler("vm", "events", "web-0", "-o", "json").json == before


def test_the_protection_is_reported_as_what_it_is_now(project):
    host = made()
    on = hostler("vm", "resize", "web-0", "--cpu", "1", "--protected")
    assert on.out == f"{project}/web-0: protected from deletion; it is running on {host}\n"
    off = hostler("vm", "resize", "web-0", "--no-protected")
    assert off.out == f"{project}/web-0: no longer protected from deletion; it is running on {host}\n"
    events = hostler("vm", "events", "web-0").out
    assert "protected web-0 from deletion" in events
    assert "removed the protection of web-0" in events


def test_a_resize_that_also_protects_leaves_both_in_the_events(project):
    made()
    result = hostler("vm", "resize", "web-0", "--cpu", "2", "--protected", "--wait", "300")
    assert result.out.startswith(f"{project}/web-0: resize done; ")
    events = hostler("vm", "events", "web-0").out
    assert "asked to resize web-0" in events
    assert "protected web-0 from deletion" in events
    assert hostler("vm", "resize", "web-0", "--no-protected").code == 0
