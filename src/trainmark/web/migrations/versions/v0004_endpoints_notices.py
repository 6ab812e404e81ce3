"""What people open beside a job, their public keys, and what they are told when a job ends."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "endpoints",
        sa.Column("label", sa.String(32), primary_key=True),
        _job(),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_index("endpoints_job", "endpoints", ["job_number", "name"], unique=True)
    op.create_table(
        "passes",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("label", sa.String(32), sa.ForeignKey("endpoints.label", ondelete="CASCADE"), nullable=False),
        _user(),
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("ticket", sa.Boolean, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "ssh_keys",
        sa.Column("id", sa.Integer, primary_key=True),
        _user(),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_index("ssh_keys_user", "ssh_keys", ["user_id", "name"], unique=True)
    op.create_table(
        "notice_settings",
        sa.Column("user_id", sa.Integer, sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("webhook_key", sa.LargeBinary),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer, primary_key=True),
        _user(),
        _job(),
        sa.Column("way", sa.String(16), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("mark", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("next", sa.Float, nullable=False),
        sa.Column("done", sa.Float),
        sa.Column("problem", sa.Text, nullable=False),
    )
    op.create_index("notices_mark", "notices", ["user_id", "way", "mark"], unique=True)
    op.create_index("notices_open", "notices", ["done", "next"])


def _user() -> sa.Column[int]:
    return sa.Column("user_id", sa.Integer, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False)


def _job() -> sa.Column[int]:
    return sa.Column("job_number", sa.Integer, sa.ForeignKey("jobs.number", ondelete="CASCADE"), nullable=False)
