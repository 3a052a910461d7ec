"""The catalogue of faults is covered: each of its 34 scenarios has at least one test with its number."""

import re
from pathlib import Path

SCENARIOS = 34


def test_every_scenario_of_the_catalogue_has_a_test():
    folder = Path(__file__).parent
    text = "\n".join(path.read_text() for path in sorted(folder.glob("test_*.py")))
    covered = {int(number) for number in re.findall(r"^(?:async )?def test_(\d\d)_", text, flags=re.MULTILINE)}
    assert covered == set(range(1, SCENARIOS + 1))
