"""Who may do what. Pure but for functions over a connection of the store; times and random bytes are passed in.

A secret (``secrets``) is looked up by the ``doorkeeper`` and gives a ``Principal``, whose ``why_not`` says what it may
not do and why (``roles``). ``keys``, ``tokens`` and ``sessions`` make, rotate and end what opens doors; ``limits`` says
how often one may knock, ``listening`` where there is a door at all.
"""

from hostler.control.access.doorkeeper import Doorkeeper
from hostler.control.access.errors import ForbiddenError, TooManyRequestsError, UnauthenticatedError
from hostler.control.access.limits import Limiter, Limits
from hostler.control.access.principals import Principal
from hostler.control.access.roles import PERMISSIONS, ROLES
from hostler.control.access.secrets import redact

__all__ = [
    "PERMISSIONS", "ROLES", "Doorkeeper", "ForbiddenError", "Limiter", "Limits", "Principal", "TooManyRequestsError",
    "UnauthenticatedError", "redact",
]  # fmt: skip
