"""Authentication and authorization. Pure, except for functions that take a connection of the store.

The ``authenticator`` looks up a secret (``secrets``) and returns a ``Principal``, whose ``why_not`` says what it may
not do, and why, by its role (``roles``). ``keys``, ``tokens`` and ``sessions`` create, rotate and revoke credentials.
``limits`` holds rate limits, ``listen_addresses`` the rules for listening. Times and random bytes are passed in.
"""

from hostler.control.access.authenticator import Authenticator
from hostler.control.access.errors import ForbiddenError, TooManyRequestsError, UnauthenticatedError
from hostler.control.access.limits import Limiter, RateLimits
from hostler.control.access.principals import Principal
from hostler.control.access.roles import PERMISSIONS, ROLES
from hostler.control.access.secrets import redact

__all__ = [
    "PERMISSIONS",
    "ROLES",
    "Authenticator",
    "ForbiddenError",
    "Limiter",
    "Principal",
    "RateLimits",
    "TooManyRequestsError",
    "UnauthenticatedError",
    "redact",
]  # fmt: skip
