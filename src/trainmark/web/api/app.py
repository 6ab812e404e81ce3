"""The application: all routes behind one guard, with what stands around every request."""

from __future__ import annotations

import logging

from litestar import Litestar, MediaType, Router
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components
from litestar.types import ControllerRouterHandler

from trainmark import __version__
from trainmark.web.api import (
    account_routes,
    endpoint_routes,
    file_routes,
    job_routes,
    notice_routes,
    oidc_routes,
    run_routes,
    secret_routes,
    server_routes,
    site_routes,
    stream_routes,
)
from trainmark.web.api.access import SCHEMES, guard
from trainmark.web.api.errors import HANDLERS
from trainmark.web.api.middleware import Authentication, Limits, Requests, with_headers
from trainmark.web.pages import site, way_in
from trainmark.web.server import Server

PREFIX = "/api/v1"
# Of a body of JSON; what uploads bring is limited where they are read.
_LARGEST_BODY = 1 << 20


def make_app(server: Server) -> Litestar:
    rooms = (
        account_routes,
        oidc_routes,
        job_routes,
        endpoint_routes,
        notice_routes,
        run_routes,
        site_routes,
        file_routes,
        secret_routes,
        stream_routes,
    )
    v1: list[ControllerRouterHandler] = [route for room in rooms for route in room.ROUTES]
    logging.getLogger("litestar").setLevel(logging.WARNING)
    made = Litestar(
        [*server_routes.ROUTES, Router(PREFIX, route_handlers=v1), site.router()],
        guards=[guard],
        middleware=[Requests(), Limits(server), Authentication(server)],
        before_send=[with_headers(server)],
        exception_handlers={**HANDLERS, NotFoundException: way_in.of_http},
        dependencies={"server": Provide(lambda: server, sync_to_thread=False)},
        signature_namespace={"Server": Server},
        request_max_body_size=_LARGEST_BODY,
        # The framework's own pages would load scripts from elsewhere: nobody is let in there. /openapi.json is ours.
        openapi_config=OpenAPIConfig(
            title="trainmark",
            version=__version__,
            components=Components(security_schemes=SCHEMES),  # type: ignore[arg-type]
            use_handler_docstrings=True,
            operation_id_creator=lambda handler, _method, _path: handler.handler_name,
            render_plugins=[JsonRenderPlugin(path="/", media_type=MediaType.JSON)],
            openapi_router=Router("/openapi", route_handlers=[], include_in_schema=False),
        ),
        logging_config=None,
    )
    made.state.server = server
    return made
