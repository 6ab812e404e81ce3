"""All pages as one router, to be put beside the API."""

from __future__ import annotations

from litestar import Router
from litestar.types import ControllerRouterHandler

from trainmark.web.pages import assets, cluster_page, home, job_pages, result_pages, submit_page, way_in


def router() -> Router:
    rooms = (assets, way_in, home, job_pages, submit_page, result_pages, cluster_page)
    routes: list[ControllerRouterHandler] = [route for room in rooms for route in room.ROUTES]
    return Router("/", route_handlers=routes, exception_handlers=way_in.HANDLERS, include_in_schema=False)
