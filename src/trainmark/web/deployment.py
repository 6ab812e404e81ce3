"""How a server is kept running: a systemd unit, and a compose file with PostgreSQL beside it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

_UNIT = """\
[Unit]
Description=trainmark: training jobs and benchmarks for several people
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=5
# Jobs go on while the server is away: only the server itself is ended with the unit.
KillMode=process
TimeoutStopSec=30
{account}UMask=0077
LimitNOFILE=65536
# Jobs of this machine are the server's children: what else was taken from it would be taken from them.
NoNewPrivileges={no_new}

[Install]
WantedBy=multi-user.target
"""
# The image is made with `EXTRAS=torch,web` of the Containerfile.
_COMPOSE = """\
# docker compose up -d (or podman-compose). The first start prints how the admin signs in: docker compose logs server
services:
  database:
    image: ${POSTGRES_IMAGE:-docker.io/library/postgres:15}
    environment:
      POSTGRES_DB: trainmark
      POSTGRES_USER: trainmark
      POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?set it in .env}
    volumes: ["database:/var/lib/postgresql/data"]
    healthcheck:
      test: ["CMD", "pg_isready", "-U", "trainmark"]
      interval: 5s
      retries: 20
    restart: unless-stopped
  server:
    image: ${TRAINMARK_IMAGE:-trainmark}
    command:
      - serve
      - --home=/server
      - --host=0.0.0.0
      - --proxy=${PROXY:?address of the proxy that does https}
      - --json-log
      - --database=postgresql://trainmark@database/trainmark
    environment:
      # Read by PostgreSQL's own library: it is no argument that others see.
      PGPASSWORD: ${POSTGRES_PASSWORD}
    volumes: ["server:/server"]
    # The proxy is on this machine, or forwards to it.
    ports: ["127.0.0.1:${PORT:-8470}:8470"]
    depends_on:
      database: {condition: service_healthy}
    restart: unless-stopped
volumes:
  database: {}
  server: {}
"""


def unit(program: Sequence[str], account: str | None, home: Path) -> str:
    """`account`: whom the server runs as; None: root, which it needs to be to run jobs as accounts of their own."""
    command = shlex.join([*program, "--home", str(home)]).replace("%", "%%")
    return _UNIT.format(
        command=command,
        account=f"User={account}\n" if account else "",
        # Root gives up its rights for each job by setpriv; an ordinary account never gains any.
        no_new="yes" if account else "no",
    )


def compose() -> str:
    return _COMPOSE
