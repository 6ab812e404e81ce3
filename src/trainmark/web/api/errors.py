"""Every failure as one kind of answer: a status and a sentence, never a traceback."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException, ValidationException

from trainmark.errors import SiteError, UserError
from trainmark.i18n import words
from trainmark.web.api.access import Problem, language_of
from trainmark.web.service import errors

log = logging.getLogger("trainmark.web")

_STATUS: dict[type[UserError], int] = {
    errors.NotFound: 404,
    errors.Refused: 403,
    errors.Conflict: 409,
    errors.SignInFailed: 401,
    errors.TooMany: 429,
}


# Headers of an error that are sent on.
_KEPT = ("allow", "retry-after", "connection")


def answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response[Problem]:
    return Response(Problem(status, detail), status_code=status, media_type=MediaType.JSON, headers=headers)


def of_user(request: Request[Any, Any, Any], error: UserError) -> Response[Problem]:
    headers = {"retry-after": str(error.seconds)} if isinstance(error, errors.TooMany) else None
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 400)
    return answer(
        503 if isinstance(error, SiteError) else status, words.error(str(error), language_of(request)), headers
    )


def of_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    if error.status_code >= 500:
        return of_anything(request, error)
    detail = error.detail
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        told = [f"{one.get('key', '')}: {one.get('message', '')}" for one in error.extra if isinstance(one, dict)]
        detail = "; ".join(told) or detail
    # Only what this application says itself: headers of an error may repeat what was sent.
    kept = {name: value for name, value in (error.headers or {}).items() if name.lower() in _KEPT}
    return answer(error.status_code, detail, kept)


def of_anything(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """The sentence has a number by which the log is searched; what happened stays there."""
    number = secrets.token_hex(4)
    log.error("error %s at %s %s", number, request.method, request.scope.get("path_template", "?"), exc_info=error)
    return answer(500, f"an error of the server, number {number} in its log")


HANDLERS: dict[Any, Any] = {UserError: of_user, HTTPException: of_http, Exception: of_anything}
