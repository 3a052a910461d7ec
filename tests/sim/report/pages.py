"""Reads a page as a browser would: tags in pairs, tables as rows of text."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """A page, taken apart; a tag that is not closed, or closed by another, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: list[str] = []
        self._caption = ""
        self._row: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "meta":
            return
        self.open.append(tag)
        if tag == "caption":
            self._caption = ""
        if tag == "tr":
            self._row = []
        if tag in ("td", "th"):
            self._row.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag
        if tag == "tr":
            self.tables.setdefault(self._caption, []).append(self._row)

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)
        if "caption" in self.open:
            self._caption += data
        elif {"td", "th"} & set(self.open):
            self._row[-1] += data

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def table(self, words: str) -> list[list[str]]:
        """Return the first table whose caption has these words."""
        return next(rows for caption, rows in self.tables.items() if words in caption)

    def row(self, words: str, *first: str) -> dict[str, str]:
        """Return the row of a table that begins with these cells, by heading."""
        head, *rows = self.table(words)
        return dict(zip(head, next(row for row in rows if row[: len(first)] == list(first)), strict=True))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]
