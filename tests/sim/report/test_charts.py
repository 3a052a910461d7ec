"""Charts: round ticks, labels that do not overlap, pictures that hold their numbers."""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode

import numpy as np
import pytest

from hostler.sim.report.charts.canvas import figure_text, linear_scale, shorten_middle, time_scale
from hostler.sim.report.charts.heatmap import LEVELS, picture_url
from hostler.sim.report.charts.lines import spread_labels
from hostler.sim.report.markup import join_markup, raw, tag


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.0, 97.3, ("0", "20", "40", "60", "80", "100")),
        (0.0, 0.9, ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        (0.0, 1_234.0, ("0", "250", "500", "750", "1,000", "1,250")),
        (0.0, 1.25, ("0.00", "0.25", "0.50", "0.75", "1.00", "1.25")),
        (90.4, 95.6, ("90", "92", "94", "96")),
        (3.0, 3.0, ("3.0", "3.2", "3.4", "3.6", "3.8", "4.0")),
    ],
)
def test_ticks_are_round_and_take_in_all_values(low, high, labels):
    scale = linear_scale(low, high)
    assert scale.labels == labels
    assert scale.low <= low <= high <= scale.high


@pytest.mark.parametrize(
    ("last_s", "labels", "unit"),
    [
        (40.0, ("0", "5", "10", "15", "20", "25", "30", "35", "40"), "seconds"),
        (4 * 3600.0, ("0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4"), "hours"),
        (47.5 * 3600.0, ("0", "6", "12", "18", "24", "30", "36", "42"), "hours"),
        (5 * 86_400.0, ("0", "1", "2", "3", "4", "5"), "days"),
        (400 * 86_400.0, ("0", "50", "100", "150", "200", "250", "300", "350", "400"), "days"),
    ],
)
def test_ticks_of_time_are_those_of_a_clock(last_s, labels, unit):
    scale = time_scale(last_s)
    assert (scale.labels, scale.unit) == (labels, unit)


def test_labels_are_pushed_apart_but_stay_inside():
    assert spread_labels([10.0, 50.0], 14, 0, 100) == [10.0, 50.0]
    assert spread_labels([50.0, 50.0, 50.0], 14, 0, 100) == [36.0, 50.0, 64.0]
    assert spread_labels([1.0, 1.0, 40.0], 14, 0, 100) == [0.0, 14.0, 40.0]
    assert spread_labels([99.0, 100.0], 14, 0, 100) == [86.0, 100.0]


def test_numbers_have_separators_and_no_negative_zero():
    assert (figure_text(1234.5), figure_text(-0.0), figure_text(2_000_000, 0)) == ("1,234.50", "0.00", "2,000,000")


def test_long_names_keep_both_ends():
    assert shorten_middle("policy-with-a-long-name-7", 11) == "polic…ame-7"
    assert shorten_middle("short", 11) == "short"


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", "a < b", raw("<br>"), title='"x"') == '<p title="&quot;x&quot;">a &lt; b<br></p>'
    assert join_markup(["&", raw("&amp;")]) == "&amp;&amp;"


def test_a_picture_has_a_dot_for_each_share():
    content = b64decode(
        picture_url(np.array([[0.0, 0.5, 1.0], [1.5, 0.25, 0.75]])).removeprefix("data:image/png;base64,")
    )
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (3, 2)
    at = content.index(b"IDAT")
    (length,) = struct.unpack(">I", content[at - 4 : at])
    dots = zlib.decompress(content[at + 4 : at + 4 + length])
    assert dots == bytes([0, 0, 50, LEVELS, 0, LEVELS + 1, 25, 75])
