"""The generated references are those of the code as it is."""

from __future__ import annotations

import pytest

from tools import references


@pytest.mark.parametrize("name", references.PAGES)
def test_the_page_is_up_to_date(name):
    assert (references.FOLDER / f"{name}.md").read_text() == references.PAGES[name](), "run 'make docs'"


def test_a_stale_page_is_named_and_then_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(references, "FOLDER", tmp_path / "docs" / "reference")
    assert references.main(["--check"]) == 1
    assert "error: docs/reference/cli.md is stale" in capsys.readouterr().err
    assert references.main([]) == 0
    assert references.main(["--check"]) == 0
    (tmp_path / "docs" / "reference" / "errors.md").write_text("old")
    assert references.main(["--check"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: docs/reference/errors.md is stale",
        "hint: run 'make docs'",
    ]


def test_other_words_are_refused():
    assert references.main(["--chek"]) == 2
