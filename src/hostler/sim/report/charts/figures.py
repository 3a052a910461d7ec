"""Figures: a chart with its caption, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.sim.report.charts.averages import ChartLine
from hostler.sim.report.charts.bars import Bar
from hostler.sim.report.charts.canvas import PolicyColors, Scale, figure_text, short_number_text
from hostler.sim.report.markup import Markup, details, table, tag

__all__ = ["bars_table", "frame_chart", "legend", "lines_table"]


def frame_chart(title: str, unit: str, chart: Markup, numbers: Markup | None = None) -> Markup:
    """Return a figure; its title says what the vertical axis is."""
    caption = tag("figcaption", tag("b", title), f" {unit}" if unit else "")
    return tag("figure", caption, chart, details("Numbers", numbers) if numbers else "")


def legend(policies: Sequence[str], colors: PolicyColors) -> Markup:
    """Return the colors of policies; a click hides or shows one."""
    items = []
    for policy in policies:
        swatch = tag(
            "svg",
            tag(
                "line", x1=1, x2=21, y1=5, y2=5, class_=f"line {colors.color(policy)}",
                stroke_dasharray=colors.dash(policy),
            ),
            viewBox="0 0 22 10",
            aria_hidden="true",
        )  # fmt: skip
        items.append(
            tag(
                "button", swatch, policy, type="button", aria_pressed="true", data_policy=str(colors.number(policy)),
                title="show or hide",
            )
        )  # fmt: skip
    return tag("div", *items, class_="legend", role="group", aria_label="Policies")


def lines_table(lines: Sequence[ChartLine], x: Scale, x_title: str, caption: str, digits: int = 2) -> Markup:
    """Return the means at the ticks of a chart; where a line has no point just there, the last one before."""
    rows = []
    for tick, label in zip(x.ticks, x.labels, strict=True):
        cells = []
        for line in lines:
            before = int((line.x <= tick + 1e-6 * max(x.high, 1.0)).sum()) - 1
            is_known = before >= 0 and tick <= line.x[-1] + 1e-6
            cells.append(figure_text(float(line.mean[before]), digits) if is_known else "-")
        rows.append([label, *cells])
    return table(caption, [(x_title, "right"), *((line.policy, "right") for line in lines)], rows)


def bars_table(groups: Sequence[tuple[str, Sequence[Bar]]], heading: str, caption: str, digits: int = 2) -> Markup:
    """Return the numbers of a bar chart: means, and from the least to the most."""
    rows = []
    for name, bars in groups:
        for bar in bars:
            extent = f"{short_number_text(bar.low, digits)} to {short_number_text(bar.high, digits)}"
            rows.append([name, bar.policy, figure_text(bar.mean, digits), extent])
    columns = [(heading, "left"), ("Policy", "left"), ("Mean", "right"), ("Least to most", "right")]
    return table(caption, columns, rows)
