"""The lint of names and wording finds each kind of problem; ``make check`` finds none in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.plain_words import CHECKED, LONGEST_TEST_NAME, check_file, check_roots

LONG_NAME = "test_" + "x" * (LONGEST_TEST_NAME - 4)


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [
        ("src/hostler/sim/filling.py", "", "src/hostler/sim/filling.py:1"),
        ("src/hostler/engine/gpu_sharing/__init__.py", "", "src/hostler/engine/gpu_sharing/__init__.py:1"),
        ("tests/cli/test_wording.py", "", "tests/cli/test_wording.py:1"),
        ("tests/cli/test_place.py", f"\ndef {LONG_NAME}(): ...\n", "tests/cli/test_place.py:2"),
        ("src/hostler/a.py", '"""Nobody asks."""\n', "src/hostler/a.py:1"),
        ("src/hostler/a.py", '"""A host.\n\nIt is\ntold about a VM.\n"""\n', "src/hostler/a.py:3"),
        ("src/hostler/a.py", 'x = (\n    "Some"\n    "body"\n)\n', "src/hostler/a.py:2"),
        ("src/hostler/a.py", 'x = f"{y} of which {z}"\n', "src/hostler/a.py:1"),
        ("src/hostler/a.py", "\nx = 1  # for whoever asks\n", "src/hostler/a.py:2"),
        ("src/hostler/web/templates/vm.html", "<p>\nmade anew</p>\n", "src/hostler/web/templates/vm.html:2"),
        ("docs/guides/vms.md", "# VMs\n\nWhat befalls a host\n", "docs/guides/vms.md:3"),
    ],
)
def test_old_name_or_word_is_found(path: str, text: str, place: str):
    findings = list(check_file(path, text))
    assert [f"{finding.path}:{finding.line}" for finding in findings] == [place]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/hostler/runtime/logging.py", ""),
        ("tests/kube/test_scheduling.py", ""),
        ("tests/cli/test_place.py", f"def {LONG_NAME[:-1]}(): ...\n"),
        ("tests/cli/test_place.py", "x = 'nobody'\n"),
        ("src/hostler/a.py", "nobody = manewver = 'nobody_else'\n"),
        ("docs/guides/vms.md", "The owner of the VM gets the message.\n"),
        ("data/hosts.csv", "nobody\n"),
    ],
)
def test_plain_name_or_word_is_accepted(path: str, text: str):
    assert list(check_file(path, text)) == []


def test_findings_in_a_folder_are_sorted_by_place(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/b.md").write_text("Somebody or\nnobody\n", encoding="utf-8")
    (tmp_path / "docs/a.md").write_text("anew\n", encoding="utf-8")
    found = [str(finding) for finding in check_roots(["docs"], tmp_path)]
    assert found == [
        'docs/a.md:1: "anew" is a word of the old style',
        'docs/b.md:1: "Somebody" is a word of the old style',
        'docs/b.md:2: "nobody" is a word of the old style',
    ]


def test_root_that_does_not_exist_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="docs is not in the repository"):
        check_roots(["docs"], tmp_path)


def test_each_root_is_named_once_and_sorted():
    assert list(CHECKED) == sorted(set(CHECKED))
