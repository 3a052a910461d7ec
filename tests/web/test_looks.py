"""What can be said about looks without a browser: contrast, colors of the map, files of others."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

import hostler.web
from hostler.web.host_map import color_step

FOLDER = Path(hostler.web.__file__).parent
CSS = (FOLDER / "static" / "hostler.css").read_text()
STEPS = [str(step) for step in range(10)] + ["over"]
TEXT = [
    ("ink", "paper"), ("ink", "raised"), ("ink", "calm-soft"), ("muted", "paper"), ("muted", "raised"),
    ("muted", "calm-soft"), ("accent", "paper"), ("accent", "raised"), ("accent", "calm-soft"),
    ("accent-ink", "accent"), ("good", "good-soft"), ("warn", "warn-soft"), ("bad", "bad-soft"),
    ("bad", "raised"), ("ink", "good-soft"),
    ("ink", "warn-soft"), ("ink", "bad-soft"), ("paper", "ink"),
]  # fmt: skip
SHAPES = [("focus", "paper"), ("focus", "raised"), ("bar", "bar-back"), ("muted", "raised")]


def colors(scheme: str) -> dict[str, str]:
    """Return the custom properties of a scheme; the dark one changes some of the light one."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    found = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", light))
    return found | dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", dark)) if scheme == "dark" else found


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_of(step: str, scheme: str) -> str:
    """Return which ink the sheet writes with on a step of the map."""
    rules = re.findall(rf"\.heat-{step} \{{[^}}]*[^-]color: var\(--([a-z-]+)\)", CSS)
    return rules[-1] if scheme == "dark" else rules[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), TEXT)
def test_text_can_be_read(front: str, back: str, scheme: str) -> None:
    known = colors(scheme)
    assert contrast(known[front], known[back]) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), SHAPES)
def test_shapes_can_be_seen(front: str, back: str, scheme: str) -> None:
    known = colors(scheme)
    assert contrast(known[front], known[back]) >= 3.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("step", STEPS)
def test_numbers_on_the_map_can_be_read(step: str, scheme: str) -> None:
    known = colors(scheme)
    assert contrast(known[f"heat-{step}"], known[ink_of(step, scheme)]) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_goes_one_way_in_lightness(scheme: str) -> None:
    """A user who cannot tell hues apart still sees which host is fuller."""
    known = colors(scheme)
    shades = [luminance(known[f"heat-{step}"]) for step in range(10)]
    if scheme == "light":
        shades.reverse()
    assert all(after / before > 1.08 for before, after in pairwise(shades))


def test_every_share_has_a_colour() -> None:
    shares = (0, 9, 10, 55, 99, 100, 101, 900)
    assert [color_step(share) for share in shares] == ["0", "0", "1", "5", "9", "9", "over", "over"]
    assert color_step(None) == "none"
    for step in (*STEPS, "none"):
        assert f".heat-{step} {{" in CSS


def test_files_of_others_are_unchanged_and_have_their_licence() -> None:
    folder = FOLDER / "static" / "vendor"
    listed = dict(re.findall(r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", (folder / "README.md").read_text()))
    scripts = {path.name for path in folder.iterdir() if path.suffix == ".js"}
    assert scripts == set(listed)
    for name, expected in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected
    assert "Zero-Clause BSD" in (folder / "htmx-LICENSE").read_text()


def test_templates_and_sheet_name_no_other_site_and_no_inline_code() -> None:
    for path in [
        *(FOLDER / "templates").iterdir(),
        FOLDER / "static" / "hostler.css",
        FOLDER / "static" / "hostler.js",
    ]:
        text = path.read_text()
        assert "http://" not in text, path
        assert "https://" not in text, path
        assert not re.search(r"\s(style|on[a-z]+)=", text), path
