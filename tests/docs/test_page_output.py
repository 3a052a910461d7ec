"""How commands and their output are found in a page, compared and refreshed."""

from __future__ import annotations

import re

import pytest

from tests.docs import page_output
from tests.docs.page_commands import steps_of
from tests.docs.page_output import AGES, IDS, SIZES, TIMES, Page, has_table, matches, refreshed

VOLATILE = (AGES, IDS, SIZES, TIMES)
PRINTED = ["NAME   CPU", "web-0  1", "web-1  2", "web-2  3", "", "3 guests"]
TEXT = """# A page

```console
$ hostler list
NAME   CPU
web-0  1
...
3 guests

$ hostler quiet  # exit 1
```
"""


class TestCommands:
    """Commands are read from console blocks, with their exit codes and output."""

    def test_only_lines_with_a_dollar_in_console_blocks_count(self):
        text = "```console\n$ one\nits output\n$ two\n```\n```text\n$ three\n```\n```console\n$ four\n```\n"
        assert [step.command for step in steps_of(text)] == ["one", "two", "four"]

    def test_continued_line_is_one_command(self):
        assert [step.command for step in steps_of("```console\n$ one \\\n    --two\n```\n")] == ["one --two"]

    def test_exit_code_may_be_noted(self):
        steps = steps_of("```console\n$ hostler place -f x  # exit 1\n$ hostler place\n```\n")
        assert [(step.command, step.code) for step in steps] == [("hostler place -f x", 1), ("hostler place", 0)]

    def test_output_is_what_stands_below_a_command(self):
        first, second = steps_of(TEXT)
        assert first.shown == ("NAME   CPU", "web-0  1", "...", "3 guests")
        assert TEXT.splitlines()[first.first : first.end] == list(first.shown)
        assert (second.shown, second.code) == ((), 1)


class TestComparison:
    """Output is the same line by line, apart from lines that are left out and parts that are volatile."""

    @pytest.mark.parametrize(
        "shown",
        [
            PRINTED,
            ["NAME   CPU", "...", "3 guests"],
            ["...", "web-1  2", "...", "3 guests"],
            ["NAME   CPU", "web-0  1", "..."],
            ["..."],
        ],
    )
    def test_same_output_matches(self, shown):
        assert matches(shown, PRINTED)

    @pytest.mark.parametrize(
        "shown",
        [
            PRINTED[:-1],
            PRINTED[1:],
            ["NAME   CPU", "...", "4 guests"],
            ["...", "web-2  3", "...", "web-1  2", "..."],
            ["...", "web-1 2", "..."],
            [*PRINTED, "...", "3 guests"],
        ],
    )
    def test_other_output_does_not_match(self, shown):
        assert not matches(shown, PRINTED)

    @pytest.mark.parametrize(
        ("shown", "printed"),
        [
            ("web-0  3s ago", "web-0  12.5s ago"),
            ("at 2026-11-19T08:00:00Z  on a", "at 2027-01-01 10:11:12.5+01:00  on a"),
            (f"operation {'0af' * 10}12", f"operation {'1be' * 10}34"),
            ("run.journal  1,234 bytes", "run.journal  99 bytes"),
            ("NAME   AGE", "NAME      AGE"),
            ("cluster at …:443", "cluster at 127.0.0.1:443"),
        ],
    )
    def test_volatile_parts_are_equal(self, shown, printed):
        assert matches([shown], [printed], VOLATILE)
        assert not matches([shown + "x"], [printed], VOLATILE)
        assert "…" in shown or not matches([shown], [printed])

    def test_table_is_recognized(self):
        assert has_table(PRINTED)
        assert has_table(["  TIME  RUNNING", " 0.0h        1"])
        assert not has_table(["CPU 3", "NAME   CPU"])
        assert not has_table(["note: no such host", "hint: try another"])


class TestRefresh:
    """Output that is out of date is replaced, and as much is shown as before."""

    def test_output_without_gaps_is_shown_whole(self):
        assert refreshed(["old"], PRINTED) == PRINTED

    def test_gaps_stay_where_they_were(self):
        old = ["NAME   CPU", "...", "web-1  old", "...", "2 guests"]
        assert refreshed(old, PRINTED) == ["NAME   CPU", "...", "web-1  2", "...", "3 guests"]

    def test_new_output_is_shortened_when_it_is_long(self):
        long = [f"line {at}" for at in range(30)]
        assert refreshed([], PRINTED) == PRINTED
        assert refreshed(["..."], long) == [*long[:6], "...", *long[-2:]]

    def test_line_that_is_gone_is_left_to_a_person(self):
        with pytest.raises(AssertionError, match="edit the page by hand"):
            refreshed(["...", "web-9  1", "..."], PRINTED)


class TestPage:
    """A page is compared command by command."""

    @pytest.fixture
    def page(self, tmp_path, monkeypatch):
        monkeypatch.setattr(page_output, "ROOT", tmp_path)
        (tmp_path / "page.md").write_text(TEXT)
        return Page("page.md")

    def test_page_that_shows_the_output_passes(self, page):
        first, second = page.steps
        page.compare(first, 0, "\n".join(PRINTED))
        page.compare(second, 1, "")
        page.finish()

    def test_stale_table_fails_and_can_be_refreshed(self, page, monkeypatch, tmp_path):
        first, _ = page.steps
        now = "\n".join(PRINTED).replace("web-0  1", "web-0  8")
        with pytest.raises(AssertionError, match=r"page.md:4: run `make pages`"):
            page.compare(first, 0, now)
        monkeypatch.setattr(page_output, "_REFRESH", True)
        page.compare(first, 0, now)
        page.finish()
        assert (tmp_path / "page.md").read_text() == TEXT.replace("web-0  1", "web-0  8")
        monkeypatch.setattr(page_output, "_REFRESH", False)
        Page("page.md").compare(Page("page.md").steps[0], 0, now)

    def test_table_that_is_not_shown_fails(self, page):
        with pytest.raises(AssertionError, match="does not show what this prints"):
            page.compare(page.steps[1], 1, "\n".join(PRINTED))

    def test_wrong_exit_code_fails(self, page):
        with pytest.raises(AssertionError, match="hostler list"):
            page.compare(page.steps[0], 2, "\n".join(PRINTED))

    def test_shown_output_that_was_not_compared_fails(self, page):
        with pytest.raises(AssertionError, match=re.escape("['hostler list']")):
            page.finish()

    def test_addresses_and_folders_are_shown_under_other_names(self, page):
        printed = "\n".join(PRINTED).replace("web-0", "/tmp/web-0")
        page.compare(page.steps[0], 0, printed, {"/tmp/": ""})
