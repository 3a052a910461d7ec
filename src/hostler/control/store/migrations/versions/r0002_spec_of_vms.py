"""Revision 0002: the spec of a VM is in its status only; it was also written as a column that only restores read."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, LargeBinary, text

__all__ = ["downgrade", "upgrade"]

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the column."""
    op.drop_column("vms", "spec")


def downgrade() -> None:
    """Add the column again. It stays empty, because the status has the spec."""
    op.add_column("vms", Column("spec", LargeBinary, nullable=False, server_default=text("''")))
