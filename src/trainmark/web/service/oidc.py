"""Sign-in by OpenID Connect: the code flow with PKCE, at the one provider that `server.yaml` names.

What was begun is kept by the browser, sealed with the server's key, not by the server. Users are known by the issuer
and the subject, never by a name or an address: a provider may give those to somebody else. The libraries are imported
when somebody signs in this way; few servers need them.
"""

from __future__ import annotations

import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from sqlalchemy import Connection, insert, select

from trainmark.errors import SiteError
from trainmark.web.server import Server
from trainmark.web.service import accounts, audit, database, sealing, sites
from trainmark.web.service.errors import Conflict, NotFound, Refused, SignInFailed
from trainmark.web.service.records import Principal
from trainmark.web.service.rules import Provider
from trainmark.web.service.tables import identities, users

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import OAuth2Client

CALLBACK = "/api/v1/session/oidc/callback"
BEGUN_SECONDS = 600
_TIMEOUT = 10.0
_KNOWN_SECONDS = 300.0
_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
_PURPOSE = "oidc"
_USER_NAME = re.compile(r"[a-z][a-z0-9._-]{0,31}")
_LOCAL = ("127.0.0.1", "::1", "localhost")


class Begun(msgspec.Struct, frozen=True):
    """`tie_to`: the user who was signed in when it began, and wants to be known by this identity."""

    state: str
    nonce: str
    verifier: str
    until: float
    tie_to: int | None


class _Found(msgspec.Struct, frozen=True):
    """What we need of the provider's own description."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


def provider_of(server: Server) -> Provider:
    found = server.rules.oidc
    if found is None:
        raise NotFound("this server has no provider of identities; `oidc` in server.yaml names one")
    return found


def begin(server: Server, asker: Principal | None) -> tuple[str, str]:
    """Where the browser goes, and what it keeps until it comes back."""
    provider = provider_of(server)
    begun = Begun(
        secrets.token_urlsafe(24),
        secrets.token_urlsafe(24),
        secrets.token_urlsafe(48),
        time.time() + BEGUN_SECONDS,
        asker.id if asker is not None and asker.session is not None else None,
    )
    with _client(provider) as client:
        found = _look_up(client, server, provider)
        url, _ = client.create_authorization_url(
            found.authorization_endpoint, state=begun.state, nonce=begun.nonce, code_verifier=begun.verifier
        )
    return url, sealing.seal_text(server.key, _PURPOSE, msgspec.json.encode(begun))


def finish(server: Server, kept: str, state: str, code: str, address: str) -> int:
    """The number of the user whom the provider names."""
    provider = provider_of(server)
    opened = sealing.open_text(server.key, _PURPOSE, kept)
    begun = msgspec.json.decode(opened, type=Begun) if opened is not None else None
    if begun is None or begun.until < time.time() or not secrets.compare_digest(begun.state.encode(), state.encode()):
        raise SignInFailed("this sign-in was not begun here, or took too long; begin again")
    claims = _claims(server, provider, begun, code)
    with database.writing(server.engine) as connection:
        return _user(connection, server, claims, begun.tie_to, address)


def _claims(server: Server, provider: Provider, begun: Begun, code: str) -> dict[str, Any]:
    import httpx
    from authlib.common.errors import AuthlibBaseError
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    with _client(provider) as client:
        found = _look_up(client, server, provider)
        try:
            token = client.fetch_token(found.token_endpoint, code=code, code_verifier=begun.verifier)
            keys = KeySet.import_key_set(_json(client, found.jwks_uri))
            claims = jwt.decode(str(token.get("id_token", "")), keys, algorithms=_ALGORITHMS).claims
            jwt.JWTClaimsRegistry(
                leeway=30,
                iss={"essential": True, "value": found.issuer},
                aud={"essential": True, "value": provider.client_id},
                exp={"essential": True},
                sub={"essential": True},
                nonce={"essential": True, "value": begun.nonce},
            ).validate(claims)
        except (AuthlibBaseError, JoseError, httpx.HTTPError, ValueError) as error:
            raise SignInFailed(
                f"the provider of identities did not confirm who you are ({type(error).__name__})"
            ) from None
    return dict(claims)


def _client(provider: Provider) -> OAuth2Client:
    from authlib.integrations.httpx_client import OAuth2Client

    try:
        secret = Path(provider.client_secret_file).read_text().strip()
    except OSError as error:
        raise SiteError(f"server.yaml: oidc.client_secret_file: {error.strerror}") from None
    return OAuth2Client(
        provider.client_id,
        secret,
        scope="openid profile",
        redirect_uri=provider.address.rstrip("/") + CALLBACK,
        code_challenge_method="S256",
        timeout=_TIMEOUT,
        follow_redirects=False,
    )


def _look_up(client: OAuth2Client, server: Server, provider: Provider) -> _Found:
    """Its own description, asked for again after some minutes. It and all it names are https, or on this machine."""
    import httpx

    issuer = provider.issuer.rstrip("/")
    until, known = server.descriptions.get(issuer, (0.0, None))
    if isinstance(known, _Found) and time.monotonic() < until:
        return known
    try:
        found = msgspec.convert(_json(client, f"{issuer}/.well-known/openid-configuration"), _Found)
    except (httpx.HTTPError, msgspec.ValidationError, ValueError) as error:
        raise SiteError(f"the provider of identities does not answer as it should ({type(error).__name__})") from None
    if found.issuer.rstrip("/") != issuer:
        raise SiteError("the provider of identities calls itself by another name than server.yaml does")
    for one in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
        _check_address(one)
    server.descriptions[issuer] = time.monotonic() + _KNOWN_SECONDS, found
    return found


def _json(client: OAuth2Client, url: str) -> Any:
    _check_address(url)
    answer = client.request("GET", url, withhold_token=True)
    answer.raise_for_status()
    return answer.json()


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise SiteError("the provider of identities is reached by https only")


def _user(connection: Connection, server: Server, claims: dict[str, Any], tie_to: int | None, address: str) -> int:
    issuer, subject = str(claims["iss"]), str(claims["sub"])
    known = (identities.c.issuer == issuer, identities.c.subject == subject)
    number = connection.execute(select(identities.c.user_id).where(*known)).scalar()
    if number is None:
        number = tie_to if tie_to is not None else _new_user(connection, server, claims)
        values = {"issuer": issuer, "subject": subject, "user_id": number, "created": time.time()}
        connection.execute(insert(identities).values(**values))
        audit.note(connection, _name(connection, number), "identity.tie", f"{issuer} {subject}", address)
    elif tie_to not in (None, number):
        raise Conflict("this identity belongs to another user here")
    if connection.execute(select(users.c.disabled).where(users.c.id == number)).scalar():
        raise Refused("this user is disabled")
    audit.note(connection, _name(connection, number), "session.begin", "oidc", address)
    return int(number)


def _new_user(connection: Connection, server: Server, claims: dict[str, Any]) -> int:
    provider = provider_of(server)
    if not provider.make_users:
        raise Refused("you have no user here; an admin makes one, and you tie it to your identity once signed in")
    name = str(claims.get(provider.name_claim) or claims["sub"]).lower()
    if provider.name_domain:
        name = name.removesuffix(f"@{provider.name_domain.lower()}")
    if not _USER_NAME.fullmatch(name):
        raise Refused(f"the provider's name for you, {name[:40]!r}, cannot be a user's name here; ask an admin for one")
    # A name that a site knows brings an account on its hosts with it: only an admin gives that away.
    if sites.has_account(server.home, name):
        raise Refused(
            f"an account on a site belongs to `{name}`; an admin makes this user, and you tie it once signed in"
        )
    # Somebody else may have this name already: whoever is called so at the provider does not become them.
    return accounts.add_user(connection, name, provider.role)


def _name(connection: Connection, number: int) -> str:
    return str(connection.execute(select(users.c.name).where(users.c.id == number)).scalar())
