"""All tables, for SQLite and PostgreSQL alike. The migrations make them; a test checks that both say the same.

What is filtered, summed or unique is a column. The rest (the spec of a VM, conditions) is ``body`` or similar:
bytes of msgspec JSON that the store never decodes. Amounts and times are 64-bit integers (bytes, milli-units,
nanoseconds since 1970). ``version`` grows with every change of a row and is its ETag.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = [
    "METADATA", "api_keys", "checkpoints", "gangs", "host_labels", "hosts", "idempotency_keys", "join_tokens", "lease",
    "log", "log_head", "operations", "placements", "projects", "quotas", "reservations", "settings", "vm_labels", "vms",
]  # fmt: skip

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_ALIVE = text("deleted_ns IS NULL")


def _name(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text("''"))


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean(create_constraint=False), nullable=False)


def _maybe(name: str) -> Column[int | None]:
    return Column(name, BigInteger, nullable=True)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _only_row() -> Column[int]:
    return Column("id", Integer, CheckConstraint("id = 1", name="only_row"), primary_key=True, autoincrement=False)


# ------------------------------------------------------------------------------------------- what decisions rest on

log = Table(
    "log",
    METADATA,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _number("at_ns"),
    Column("kind", Text, CheckConstraint("kind IN ('fact', 'step', 'note')", name="kind"), nullable=False),
    _name("actor"),
    _name("project"),
    _name("subject"),
    _bytes("body"),
    Index("ix_log_project_seq", "project", "seq"),
    Index("ix_log_subject_seq", "subject", "seq"),
)
log_head = Table("log_head", METADATA, _only_row(), _number("seq"), _number("forgotten"))
checkpoints = Table(
    "checkpoints",
    METADATA,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _number("at_ns"),
    _name("format"),
    _bytes("body"),
)
lease = Table(
    "lease",
    METADATA,
    _only_row(),
    _name("holder"),
    _name("address"),
    _number("epoch"),
    _number("renewed_ms"),
    _number("ttl_ms"),
)

# ---------------------------------------------------------------------------------------------- projects and their VMs

projects = Table(
    "projects",
    METADATA,
    _key("name"),
    _number("version"),
    _number("created_ns"),
    _number("updated_ns"),
    _bytes("body"),
)
vms = Table(
    "vms",
    METADATA,
    _key("id"),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("name", Text, nullable=False),
    _name("power"),
    _name("state"),
    _name("host"),
    _name("gang"),
    _number("priority"),
    _flag("is_protected"),
    _number("cpu_millis"),
    _number("memory_bytes"),
    _number("disk_bytes"),
    _number("generation"),
    _number("observed_generation"),
    _number("restarts"),
    _number("version"),
    _number("created_ns"),
    _number("updated_ns"),
    _maybe("deleted_ns"),
    _bytes("status"),
    Index("uq_vms_project_name", "project", "name", unique=True, sqlite_where=_ALIVE, postgresql_where=_ALIVE),
    Index("ix_vms_created_ns_id", "created_ns", "id"),
    Index("ix_vms_project_created_ns_id", "project", "created_ns", "id"),
    Index("ix_vms_host", "host"),
    Index("ix_vms_gang", "project", "gang"),
    Index("ix_vms_deleted_ns", "deleted_ns"),
)
vm_labels = Table(
    "vm_labels",
    METADATA,
    Column("owner", Text, ForeignKey("vms.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    _name("value"),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_vm_labels_key_value_owner", "key", "value", "owner"),
)
# Two rows for a VM that moves: room is kept at both ends.
placements = Table(
    "placements",
    METADATA,
    Column("vm", Text, ForeignKey("vms.id", ondelete="CASCADE"), nullable=False),
    Column("host", Text, ForeignKey("hosts.id"), nullable=False),
    Column("role", Text, CheckConstraint("role IN ('home', 'landing')", name="role"), nullable=False),
    _number("generation"),
    _number("cpu_millis"),
    _number("memory_bytes"),
    _number("disk_bytes"),
    _number("seq"),
    _number("at_ns"),
    _number("version"),
    _bytes("body"),
    PrimaryKeyConstraint("vm", "role"),
    UniqueConstraint("vm", "host"),
    Index("ix_placements_host", "host"),
)

# ---------------------------------------------------------------------------------------------------------------- hosts

hosts = Table(
    "hosts",
    METADATA,
    _key("id"),
    Column("name", Text, nullable=False),
    _name("state"),
    _flag("is_cordoned"),
    _flag("is_draining"),
    _name("boot"),
    _name("agent"),
    _number("epoch"),
    _number("cpu_millis"),
    _number("memory_bytes"),
    _number("disk_bytes"),
    _number("generation"),
    _number("observed_generation"),
    _number("version"),
    _number("created_ns"),
    _number("updated_ns"),
    _number("seen_ns"),
    _maybe("deleted_ns"),
    _bytes("body"),
    Column("credential_hash", Text, nullable=True, unique=True),
    Column("old_credential_hash", Text, nullable=True, unique=True),
    _number("old_credential_until_ns"),
    Index("uq_hosts_name", "name", unique=True, sqlite_where=_ALIVE, postgresql_where=_ALIVE),
    Index("ix_hosts_created_ns_id", "created_ns", "id"),
    Index("ix_hosts_agent", "agent"),
)
host_labels = Table(
    "host_labels",
    METADATA,
    Column("owner", Text, ForeignKey("hosts.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    _name("value"),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_host_labels_key_value_owner", "key", "value", "owner"),
)

# ------------------------------------------------------------------------------------------------------------- secrets

join_tokens = Table(
    "join_tokens",
    METADATA,
    _key("id"),
    Column("hash", Text, nullable=False, unique=True),
    _name("host_name"),
    _name("actor"),
    _number("version"),
    _number("created_ns"),
    _number("expires_ns"),
    _maybe("used_ns"),
    _name("used_by"),
    _maybe("revoked_ns"),
    Index("ix_join_tokens_created_ns_id", "created_ns", "id"),
)
api_keys = Table(
    "api_keys",
    METADATA,
    _key("id"),
    Column("hash", Text, nullable=False, unique=True),
    _name("name"),
    _name("project"),
    _name("role"),
    _name("actor"),
    _number("version"),
    _number("created_ns"),
    _maybe("expires_ns"),
    _maybe("revoked_ns"),
    _maybe("used_ns"),
    _bytes("body"),
    Index("ix_api_keys_created_ns_id", "created_ns", "id"),
    Index("ix_api_keys_project", "project"),
)

# ------------------------------------------------------------------------------------------------------------ requests

operations = Table(
    "operations",
    METADATA,
    _key("id"),
    _name("kind"),
    _name("project"),
    _name("subject"),
    _name("actor"),
    _name("state"),
    _number("generation"),
    _number("version"),
    _number("created_ns"),
    _number("updated_ns"),
    _maybe("finished_ns"),
    _bytes("body"),
    Index("ix_operations_created_ns_id", "created_ns", "id"),
    Index("ix_operations_subject", "subject", "created_ns", "id"),
    Index("ix_operations_project", "project", "created_ns", "id"),
    Index("ix_operations_finished_ns", "finished_ns"),
)
idempotency_keys = Table(
    "idempotency_keys",
    METADATA,
    Column("scope", Text, nullable=False),
    Column("key", Text, nullable=False),
    _name("request_hash"),
    Column("status", Integer, nullable=False),
    _number("created_ns"),
    _number("expires_ns"),
    _bytes("response"),
    PrimaryKeyConstraint("scope", "key"),
    Index("ix_idempotency_keys_expires_ns", "expires_ns"),
)

# ------------------------------------------------------------------- whole, named documents for the engine


def _documents(table: str) -> Table:
    return Table(
        table,
        METADATA,
        Column("project", Text, nullable=False),
        Column("name", Text, nullable=False),
        _number("version"),
        _number("created_ns"),
        _number("updated_ns"),
        _bytes("body"),
        PrimaryKeyConstraint("project", "name"),
    )


quotas = _documents("quotas")
reservations = _documents("reservations")
gangs = _documents("gangs")
settings = _documents("settings")
