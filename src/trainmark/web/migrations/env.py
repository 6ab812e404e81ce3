"""What alembic runs: the connection is the caller's, so that all steps are one transaction."""

from alembic import context

from trainmark.web.service.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
