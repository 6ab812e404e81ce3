"""Templates of jobs: a user's own, those that others share, and those that come with trainmark (`web/forms`)."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import msgspec
from sqlalchemy import Connection, delete, insert, or_, select, update

import trainmark.web
from trainmark.spec import yamlfile
from trainmark.spec.yamlfile import convert
from trainmark.web.service import job_plans
from trainmark.web.service.errors import NotFound
from trainmark.web.service.records import JobSpec, Principal, Template
from trainmark.web.service.tables import templates, users

_FORMS = Path(trainmark.web.__file__).with_name("forms")
# Whose those are that come with trainmark. No user's name has a blank.
SHIPPED = "trainmark itself"


@cache
def shipped() -> tuple[Template, ...]:
    found = []
    for number, file in enumerate(sorted(_FORMS.glob("*.yaml")), 1):
        source = yamlfile.read(file)
        found.append(Template(-number, SHIPPED, file.stem, True, convert(source.content, JobSpec, source.where), 0.0))
    return tuple(found)


def listed(connection: Connection, asker: Principal) -> list[Template]:
    """One's own and shared ones by name, then those that come with trainmark."""
    asked = select(templates, users.c.name.label("owner")).join(users, users.c.id == templates.c.owner_id)
    asked = asked.where(or_(templates.c.owner_id == asker.id, templates.c.shared.is_(True))).order_by(templates.c.name)
    kept = [
        Template(
            row["id"],
            row["owner"],
            row["name"],
            row["shared"],
            msgspec.json.decode(row["spec"], type=JobSpec),
            row["changed"],
        )
        for row in connection.execute(asked).mappings()
    ]
    return [*kept, *shipped()]


def put(connection: Connection, asker: Principal, name: str, spec: JobSpec, shared: bool) -> Template:
    """The asker's template of this name, made or replaced."""
    job_plans.check(spec)
    values = {"spec": msgspec.json.encode(spec).decode(), "shared": shared, "changed": time.time()}
    own = (templates.c.owner_id == asker.id, templates.c.name == name)
    if connection.execute(update(templates).where(*own).values(**values)).rowcount == 0:
        connection.execute(insert(templates).values(owner_id=asker.id, name=name, **values))
    return next(one for one in listed(connection, asker) if one.owner == asker.name and one.name == name)


def remove(connection: Connection, asker: Principal, name: str) -> None:
    own = (templates.c.owner_id == asker.id, templates.c.name == name)
    if connection.execute(delete(templates).where(*own)).rowcount != 1:
        raise NotFound(f"no template `{name}` of yours")
