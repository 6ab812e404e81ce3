"""Links to runs, runs that are kept, secrets of users, and sign-in by a provider of identities."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "shares",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("job_number", sa.Integer, sa.ForeignKey("jobs.number", ondelete="CASCADE"), nullable=False),
        _user("user_id"),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("id", sa.Integer, primary_key=True),
        _user("owner_id"),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_index("secrets_owner", "secrets", ["owner_id", "name"], unique=True)
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(200), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        _user("user_id"),
        sa.Column("created", sa.Float, nullable=False),
    )


def _user(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False)
