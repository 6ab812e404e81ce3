"""Hosts that are drained or reserved."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "host_states",
        sa.Column("host", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("by", sa.String(64), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("until", sa.Float),
        sa.Column("users", sa.Text, nullable=False),
    )
