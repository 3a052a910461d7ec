"""Output that a page shows is compared by a test, or the page says why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_commands import steps_of
from tests.docs.page_output import ROOT, has_table

# The test that runs the commands of a page and compares what they print.
COMPARED_BY = {
    "README.md": "tests/docs/test_commands_in_docs.py",
    "docs/concepts/constraints.md": "tests/docs/test_concepts.py",
    "docs/concepts/gangs.md": "tests/docs/test_concepts.py",
    "docs/concepts/preemption.md": "tests/docs/test_concepts.py",
    "docs/concepts/quotas.md": "tests/docs/test_concepts.py",
    "docs/guides/control-plane.md": "tests/control/api/test_guide.py",
    "docs/guides/experiments.md": "tests/sim/test_experiments_guide.py",
    "docs/guides/kubernetes.md": "tests/kube/deploy/test_guide.py",
    "docs/guides/manifests.md": "tests/cli/test_kubernetes_guide.py",
    "docs/guides/own-policy.md": "tests/sim/test_own_policy.py",
    "docs/guides/running.md": "tests/docs/test_running_guide.py",
    "docs/guides/scenarios.md": "tests/docs/test_commands_in_docs.py",
    "docs/guides/topology.md": "tests/sim/test_topology.py",
    "docs/guides/traces.md": "tests/sim/traces/test_trace_command.py",
    "docs/guides/vm-commands.md": "tests/cli/control/test_vm_guide.py",
    "docs/quickstart.md": "tests/docs/test_commands_in_docs.py",
}
REASON = "No test compares"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def unexplained_output(text: str) -> Iterator[str]:
    """Iterate over output outside of console blocks, in sections that do not say why no test compares it."""
    for section in re.split(r"^(?=#+ )", _without_comments(text), flags=re.MULTILINE):
        for match in _FENCE.finditer(section):
            lines = match[2].splitlines()
            is_output = has_table(lines) or match[2].startswith(("error: ", "note: ")) or _has_typed_output(lines)
            if match[1] in ("", "sh", "text") and is_output and REASON not in section[: match.start()]:
                yield match[2]


def _without_comments(text: str) -> str:
    """Return a page without the comments of its blocks, which begin as headings do."""
    return _FENCE.sub(lambda match: re.sub(r"^#+ .*\n", "", match[0], flags=re.MULTILINE), text)


def _has_typed_output(lines: list[str]) -> bool:
    return any(line.startswith("$ ") for line in lines) and any(not line.startswith("$ ") for line in lines)


def _pages() -> list[str]:
    written = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"]
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *written))


@pytest.mark.parametrize("name", _pages())
def test_page_with_output_is_compared_by_a_test_or_says_why_not(name):
    text = (ROOT / name).read_text()
    if any(step.shown for step in steps_of(text)):
        assert name in COMPARED_BY, f"{name}: compare its output with tests.docs.page_output"
    assert not list(unexplained_output(text)), f'{name}: use a console block, or write "{REASON} …" and why'


@pytest.mark.parametrize(("page", "test"), COMPARED_BY.items())
def test_test_of_a_page_reads_it(page, test):
    assert Path(page).name in (ROOT / test).read_text()


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```text\nNAME  CPU\nweb   1\n```\n", 1),
        ("```\n$ hostler list\nweb\n```\n", 1),
        ("```text\nerror: no such file\n```\n", 1),
        ("No test compares this: it takes hours.\n\n```text\nNAME  CPU\nweb   1\n```\n", 0),
        ("No test compares this.\n\n## Next\n\n```text\nNAME  CPU\nweb   1\n```\n", 1),
        ("```sh\nhostler list\n```\n", 0),
        ("```console\n$ hostler list\nNAME  CPU\nweb   1\n```\n", 0),
    ],
)
def test_block_with_output_needs_a_reason(text, blocks):
    assert len(list(unexplained_output(text))) == blocks
