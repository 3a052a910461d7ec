"""A refusal as REST tells it, for pages that show one beside what was typed."""

from __future__ import annotations

import msgspec

from hostler.control.api.problems import problem
from hostler.control.api.shapes import Problem
from hostler.errors import HostlerError
from hostler.web.desk import Visit

__all__ = ["problem_of"]

_PROBLEM = msgspec.json.Decoder(Problem)


def problem_of(visit: Visit, error: HostlerError, *, has_match: bool = False) -> Problem:
    """Return the object that REST would answer with: the same words and the same code, and nothing of our insides."""
    visit.note_refused(error)
    request_id = visit.caller.request_id
    answer = problem(error, path=visit.request.url.path, request_id=request_id, has_match=has_match)
    return _PROBLEM.decode(answer.body)
