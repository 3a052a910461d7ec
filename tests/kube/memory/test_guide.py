"""The guide to scenarios without a cluster is correct: its code runs, and prints what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "api-server-in-memory.md"


def test_the_pod_that_fits_nowhere_runs_when_a_node_comes():
    text = GUIDE.read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    assert names["before"] == {"a": "n1", "b": None}
    assert names["after"] == {"a": "n1", "b": "n2"}
    assert '`{"a": "n1", "b": None}`' in text
