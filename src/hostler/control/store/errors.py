"""Errors of the database that other packages may catch without importing SQLAlchemy.

Only ``translate`` turns a driver's error into one of ours.
"""

from __future__ import annotations

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from hostler.errors import (
    Cause,
    ConflictError,
    HostlerError,
    InputError,
    InternalError,
    UnavailableError,
    UnknownNameError,
)

__all__ = [
    "FAILURES", "BackupError", "DamagedDatabaseError", "DatabaseClosedError", "DatabaseFullError", "DatabaseInUseError",
    "DatabaseUnavailableError", "ForeignDatabaseError", "IdempotencyMismatchError", "InvalidCursorError",
    "LeaseLostError", "LogForgottenError", "LogWentBackError", "NameTakenError", "NewerDatabaseError", "NotFoundError",
    "OutcomeUnknownError", "OverloadedError", "StaleVersionError", "StillUsedError", "TargetExistsError", "cause_of",
    "is_full", "own_copy", "translate",
]  # fmt: skip

# PostgreSQL's codes
_DISK_FULL = "53100"
_READ_ONLY = "25006"
_NOT_SUPPORTED = "0A000"
_NOT_ALLOWED = ("42501", "3F000")  # no right; no schema that tables could be in


class DatabaseUnavailableError(UnavailableError):
    """The database did not answer, and nothing was written."""

    code = "database_unavailable"


class DatabaseFullError(UnavailableError):
    """The disk of the database is full, and nothing was written."""

    code = "database_full"


class DamagedDatabaseError(UnavailableError):
    """The database file is damaged."""

    code = "database_damaged"
    retryable = False


class DatabaseClosedError(UnavailableError):
    """The service is stopping: nothing was written."""

    code = "database_closed"


class OverloadedError(UnavailableError):
    """Too many writes wait for the database; nothing was written."""

    code = "database_overloaded"


class OutcomeUnknownError(UnavailableError):
    """COMMIT was sent and not answered: the change is written or not. Read to find out; do not repeat it."""

    code = "outcome_unknown"
    retryable = False


class LogWentBackError(UnavailableError):
    """The log lacks committed entries, because a server without them took over. Nothing is written."""

    code = "log_went_back"
    retryable = False


FAILURES = (
    DatabaseUnavailableError,
    DatabaseFullError,
    DamagedDatabaseError,
    OverloadedError,
    OutcomeUnknownError,
    LogWentBackError,
    InternalError,
)
"""What a write fails by that is not its own fault; the codes are what such writes are counted by."""


class DatabaseInUseError(ConflictError):
    """Another process uses this SQLite file."""

    code = "database_in_use"
    retryable = False


class NewerDatabaseError(InputError):
    """A newer program migrated the database."""

    code = "newer_database"


class ForeignDatabaseError(InputError):
    """The database is not one of ours."""

    code = "foreign_database"


class BackupError(InputError):
    """A backup that cannot be made, or that must not be restored."""

    code = "backup"


class TargetExistsError(BackupError):
    """A restore would replace a database without ``--force``."""


class NotFoundError(UnknownNameError):
    """There is no such row."""

    code = "not_found"

    @classmethod
    def of(cls, kind: str, name: str, *, place: str = "", hint: str = "list what there is") -> NotFoundError:
        """Return the error for a missing thing; ``place`` says where it was looked for."""
        word = "VM" if kind == "vm" else kind
        message = f"{word} {name} does not exist{f' in {place}' if place else ''}"
        return cls(message, hint=hint, cause=Cause("missing", kind, name))


class InvalidCursorError(InputError):
    """A cursor that does not come from one of our pages."""

    code = "invalid_cursor"


class NameTakenError(ConflictError):
    """The name is already in use."""

    code = "name_taken"
    retryable = False


class StillUsedError(ConflictError):
    """It is still in use, so it cannot be deleted."""

    code = "still_used"
    retryable = False


class StaleVersionError(ConflictError):
    """The row changed since it was read."""

    code = "stale_version"


class IdempotencyMismatchError(ConflictError):
    """An idempotency key was used for another request."""

    code = "idempotency_mismatch"
    retryable = False


class LeaseLostError(ConflictError):
    """This replica no longer holds the lease."""

    code = "lease_lost"
    retryable = False


class LogForgottenError(ConflictError):
    """The requested log entries were removed."""

    code = "log_forgotten"
    retryable = False


def translate(error: BaseException) -> BaseException:
    """Return our error for a driver's error; other errors unchanged."""
    if not isinstance(error, SQLAlchemyError):
        return error
    what = cause_of(error)
    found: HostlerError
    if is_full(error):
        hint = "free space on that disk, or enlarge it; the service then continues"
        found = DatabaseFullError("the disk of the database is full, and nothing was written", hint=hint)
    elif _is_damaged(error):
        hint = "stop the service, and restore a backup: hostler restore FILE --force"
        found = DamagedDatabaseError(f"the database is damaged: {what}", hint=hint)
    elif _is_read_only(error):
        hint = "name the server that may be written to; of several in the URL target_session_attrs=read-write finds it"
        found = DatabaseUnavailableError("the database can only be read: its server is a standby", hint=hint)
    elif _state_of(error) in _NOT_ALLOWED:
        hint = "let the user of Hostler own its database: ALTER DATABASE name OWNER TO user; and set it no search_path"
        found = DatabaseUnavailableError(f"the user of the database may not do what is needed: {what}", hint=hint)
    elif isinstance(error, IntegrityError):
        found = StillUsedError(f"the change contradicts other rows: {what}", hint="read again what it depends on")
    elif isinstance(error, DataError):
        found = InputError(f"the database cannot keep such a value: {what}", hint="check texts and amounts")
    elif isinstance(error, OperationalError | InterfaceError | PoolTimeoutError):
        found = DatabaseUnavailableError(f"the database is unavailable: {what}", hint="try again in a moment")
    else:
        found = InternalError(f"the database rejected a statement of ours: {what}", hint="please report it")
    found.__cause__ = error
    return found


def cause_of(error: SQLAlchemyError) -> str:
    """Return the driver's message in one line."""
    text = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
    return text[0] if text else type(error).__name__


def is_full(error: BaseException) -> bool:
    """Say whether the disk was full: both databases then undo what was not committed."""
    return isinstance(error, DBAPIError) and (
        getattr(error.orig, "sqlite_errorname", "") == "SQLITE_FULL" or _state_of(error) == _DISK_FULL
    )


def _state_of(error: BaseException) -> str:
    """Return PostgreSQL's error code, if it is PostgreSQL's error."""
    return str(getattr(error.orig, "sqlstate", "") or "") if isinstance(error, DBAPIError) else ""


def _is_read_only(error: SQLAlchemyError) -> bool:
    # What a standby says to BEGIN READ WRITE bears a code of many meanings.
    state = _state_of(error)
    return state == _READ_ONLY or (state == _NOT_SUPPORTED and "during recovery" in str(error))


def _is_damaged(error: SQLAlchemyError) -> bool:
    name = getattr(error.orig, "sqlite_errorname", "") if isinstance(error, DBAPIError) else ""
    return str(name).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def own_copy(error: BaseException) -> BaseException:
    """Return a copy of an error for one waiter: one object raised in several tasks would collect all tracebacks."""
    if not isinstance(error, HostlerError):
        return error
    copy = type(error)(error.message, hint=error.hint)
    copy.cause = error.cause
    copy.__cause__ = error.__cause__
    return copy
