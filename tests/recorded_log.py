"""A log whose messages a test reads: as they were given, without times and levels, and none left out."""

from __future__ import annotations

import json

from hostler.telemetry.log import Log


def recorded_log(messages: list[str]) -> Log:
    """Return a log that appends the message of each line, without its fields."""
    return Log(lambda line: messages.append(json.loads(line)["message"]), form="json", verbosity=1)
