"""The tables of the server's database. A change of them goes with a migration in `web/migrations`."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
)

metadata = MetaData()

users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    # None: this user cannot sign in by password (yet).
    Column("password", Text),
    Column("role", String(16), nullable=False),
    Column("disabled", Boolean, nullable=False, default=False),
    Column("created", Float, nullable=False),
)

groups = Table(
    "groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
)

members = Table(
    "members",
    metadata,
    Column("group_id", ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
)

# Links that let somebody set a password, once. Only a hash of what the link holds is kept, as of sessions and tokens.
links = Table(
    "links",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("expires", Float, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("seen", Float, nullable=False),
    Column("expires", Float, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    # Words with blanks between.
    Column("scopes", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("used", Float),
)

# Failed sign-ins, by name and by address, whether or not such a user exists.
failures = Table(
    "failures",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("last", Float, nullable=False),
    Column("until", Float, nullable=False),
)

# Rows are only added; the migration has triggers that refuse anything else.
audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("user", String(64), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(200), nullable=False),
    Column("address", String(64), nullable=False),
    Column("outcome", String(16), nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    # Grows with every job: lists go by it.
    Column("number", Integer, primary_key=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("owner_id", ForeignKey("users.id"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("site", String(64), nullable=False),
    Column("visibility", String(16), nullable=False, default="private"),
    # What was asked for, as JSON.
    Column("spec", Text, nullable=False),
    # What it takes: host → number of slots, as JSON; all of a host is written as its number of slots.
    Column("needs", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("preemptible", Boolean, nullable=False),
    Column("limit", Float, nullable=False),
    Column("state", String(16), nullable=False),
    # Why it is in this state, as JSON; empty for none.
    Column("reason", Text, nullable=False, default=""),
    # What its owner, or the queue, wants of it: go, stop, requeue.
    Column("wanted", String(16), nullable=False, default="go"),
    Column("created", Float, nullable=False),
    Column("queued", Float, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    # The id of its run, once there is one, and the epoch of the run's lease that was seen before a controller was
    # started for it: none but that one may take it.
    Column("run", String(200)),
    Column("epoch", Integer),
    Column("launched", Float),
    Column("restarts", Integer, nullable=False, default=0),
    # host → list of slots, as JSON, while it holds any.
    Column("slots", Text, nullable=False, default=""),
    # Kept, whatever the rules of retention say.
    Column("pinned", Boolean, nullable=False, default=False, server_default=false()),
)
Index("jobs_state", jobs.c.state)
Index("jobs_owner", jobs.c.owner_id, jobs.c.number)

templates = Table(
    "templates",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("shared", Boolean, nullable=False, default=False),
    Column("spec", Text, nullable=False),
    Column("changed", Float, nullable=False),
)
Index("templates_owner", templates.c.owner_id, templates.c.name, unique=True)

# Links by which anybody reads one run until a day, and changes nothing.
shares = Table(
    "shares",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("job_number", ForeignKey("jobs.number", ondelete="CASCADE"), nullable=False),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
)

# Secrets of users, encrypted with the server's key.
secrets = Table(
    "secrets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
)
Index("secrets_owner", secrets.c.owner_id, secrets.c.name, unique=True)

# Whom a provider of identities names, and who that is here.
identities = Table(
    "identities",
    metadata,
    Column("issuer", String(200), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created", Float, nullable=False),
)

# Hosts that are drained, or reserved for some users. A row whose time is over counts for nothing.
host_states = Table(
    "host_states",
    metadata,
    Column("host", String(255), primary_key=True),
    # drain, reserve.
    Column("kind", String(16), primary_key=True),
    Column("by", String(64), nullable=False),
    Column("why", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float),
    # Names, as JSON.
    Column("users", Text, nullable=False),
)

# Addresses of what people open beside a job: a host name of its own for each.
endpoints = Table(
    "endpoints",
    metadata,
    Column("label", String(32), primary_key=True),
    Column("job_number", ForeignKey("jobs.number", ondelete="CASCADE"), nullable=False),
    Column("name", String(32), nullable=False),
    Column("created", Float, nullable=False),
)
Index("endpoints_job", endpoints.c.job_number, endpoints.c.name, unique=True)

# Who may use such an address: a ticket, which is exchanged once, for what the cookie there holds.
passes = Table(
    "passes",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("label", ForeignKey("endpoints.label", ondelete="CASCADE"), nullable=False),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    # The hash of the session or the token that it was made by, with which it ends, and what its owner might do then.
    Column("session", String(64), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("ticket", Boolean, nullable=False),
    Column("expires", Float, nullable=False),
)

# By which users enter their jobs; public.
ssh_keys = Table(
    "ssh_keys",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("key", Text, nullable=False),
    Column("created", Float, nullable=False),
)
Index("ssh_keys_user", ssh_keys.c.user_id, ssh_keys.c.name, unique=True)

# What a user wants to be told, and how, as JSON; the key that signs calls of theirs, encrypted.
notice_settings = Table(
    "notice_settings",
    metadata,
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("settings", Text, nullable=False),
    Column("webhook_key", LargeBinary),
)

# What is to be told, and was: one row for each way. `done`: when it was, or was given up.
notices = Table(
    "notices",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("job_number", ForeignKey("jobs.number", ondelete="CASCADE"), nullable=False),
    Column("way", String(16), nullable=False),
    Column("event", String(16), nullable=False),
    # Of one job each event is told once in each way; a job that is queued again ends again, at another time.
    Column("mark", String(64), nullable=False),
    Column("content", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("tries", Integer, nullable=False, default=0),
    Column("next", Float, nullable=False),
    Column("done", Float),
    Column("problem", Text, nullable=False, default=""),
)
Index("notices_mark", notices.c.user_id, notices.c.way, notices.c.mark, unique=True)
Index("notices_open", notices.c.done, notices.c.next)
