"""Schemas of the server's database, oldest first in `versions/`. Read by alembic through `web/service/database.py`."""
