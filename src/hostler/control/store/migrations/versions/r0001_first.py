"""Revision 0001: all tables of the first release, as they were then."""

from __future__ import annotations

from alembic import op
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
    insert,
    text,
)

__all__ = ["downgrade", "upgrade"]

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_METADATA = MetaData(
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


Table(
    "log",
    _METADATA,
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
log_head = Table("log_head", _METADATA, _only_row(), _number("seq"), _number("forgotten"))
Table(
    "checkpoints",
    _METADATA,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _number("at_ns"),
    _name("format"),
    _bytes("body"),
)
lease = Table(
    "lease",
    _METADATA,
    _only_row(),
    _name("holder"),
    _name("address"),
    _number("epoch"),
    _number("renewed_ms"),
    _number("ttl_ms"),
)

Table(
    "projects",
    _METADATA,
    _key("name"),
    _number("version"),
    _number("created_ns"),
    _number("updated_ns"),
    _bytes("body"),
)
Table(
    "vms",
    _METADATA,
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
    _bytes("spec"),
    _bytes("status"),
    Index("uq_vms_project_name", "project", "name", unique=True, sqlite_where=_ALIVE, postgresql_where=_ALIVE),
    Index("ix_vms_created_ns_id", "created_ns", "id"),
    Index("ix_vms_project_created_ns_id", "project", "created_ns", "id"),
    Index("ix_vms_host", "host"),
    Index("ix_vms_gang", "project", "gang"),
    Index("ix_vms_deleted_ns", "deleted_ns"),
)
Table(
    "vm_labels",
    _METADATA,
    Column("owner", Text, ForeignKey("vms.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    _name("value"),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_vm_labels_key_value_owner", "key", "value", "owner"),
)
# Two rows for a VM that moves: room is kept at both ends.
Table(
    "placements",
    _METADATA,
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

Table(
    "hosts",
    _METADATA,
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
Table(
    "host_labels",
    _METADATA,
    Column("owner", Text, ForeignKey("hosts.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    _name("value"),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_host_labels_key_value_owner", "key", "value", "owner"),
)

Table(
    "join_tokens",
    _METADATA,
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
Table(
    "api_keys",
    _METADATA,
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

Table(
    "operations",
    _METADATA,
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
Table(
    "idempotency_keys",
    _METADATA,
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


def _documents(table: str) -> Table:
    return Table(
        table,
        _METADATA,
        Column("project", Text, nullable=False),
        Column("name", Text, nullable=False),
        _number("version"),
        _number("created_ns"),
        _number("updated_ns"),
        _bytes("body"),
        PrimaryKeyConstraint("project", "name"),
    )


_documents("quotas")
_documents("reservations")
_documents("gangs")
_documents("settings")


def upgrade() -> None:
    """Make everything, and the two rows that are always there."""
    connection = op.get_bind()
    _METADATA.create_all(connection, checkfirst=False)
    connection.execute(insert(log_head).values(id=1))
    connection.execute(insert(lease).values(id=1))


def downgrade() -> None:
    """Remove everything."""
    _METADATA.drop_all(op.get_bind(), checkfirst=False)
