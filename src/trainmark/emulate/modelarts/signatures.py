"""Whether a request was signed with a known key: as OBS wants it (v2, v4, `OBS`), or the API gateway. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, quote, unquote

import msgspec

# How far the clocks of client and service may be apart.
_SKEW_SECONDS = 900.0
# Parameters that belong to the signed name of an object, as OBS documents them.
_SUB_RESOURCES = frozenset(
    (
        *("acl", "append", "backtosource", "bucketstatus", "cors", "delete", "deletebucket", "encryption", "inventory"),
        *("length", "lifecycle", "location", "logging", "metadata", "modify", "name", "notification", "partnumber"),
        *("policy", "position", "quota", "rename", "replication", "requestpayment", "restore", "storageclass"),
        *("storageinfo", "storagepolicy", "tagging", "torrent", "truncate", "uploadid", "uploads", "versionid"),
        *("versioning", "versions", "website", "response-content-type", "response-content-language"),
        *("response-expires", "response-cache-control", "response-content-disposition", "response-content-encoding"),
    )
)
_GATEWAY = re.compile(r"SDK-HMAC-SHA256 Access=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$")
_V4 = re.compile(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$")
_V2 = re.compile(r"(AWS|OBS) ([^:]+):(\S+)$")


class Signed(msgspec.Struct, frozen=True):
    """A request as it came: the path and the query still encoded, the names of headers in small letters."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True)


class Refused(Exception):
    """`code` is one of OBS's; the gateway has one code for all."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def of_gateway(request: Signed, keys: Mapping[str, str], now: datetime) -> str:
    """The access key of a request to ModelArts or IAM; Refused where its signature is not good."""
    found = _GATEWAY.match(request.headers.get("authorization", ""))
    if not found:
        raise Refused("APIG.0301", "no SDK-HMAC-SHA256 signature")
    access, signed, signature = found.groups()
    date = request.headers.get("x-sdk-date", "")
    _check_time(_compact(date), now, "APIG.0301")
    path = "/".join(quote(unquote(part), safe="~") for part in request.path.split("/"))
    query = "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}" for k, v in sorted(request.parameters))
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in signed.split(";"))
    declared = request.headers.get("x-sdk-content-sha256")
    digest = declared if declared == "UNSIGNED-PAYLOAD" else hashlib.sha256(request.body).hexdigest()
    canonical = "\n".join([request.method, path.rstrip("/") + "/", query, headers, signed, digest])
    text = "\n".join(["SDK-HMAC-SHA256", date, hashlib.sha256(canonical.encode()).hexdigest()])
    _compare(_hex(_secret(access, keys, "APIG.0301").encode(), text), signature, "APIG.0301")
    return access


def of_store(request: Signed, keys: Mapping[str, str], now: datetime) -> str:
    """The access key of a request to OBS, by whichever of its three kinds of signature, in a header or in the query."""
    authorization = request.headers.get("authorization", "")
    if found := _V4.match(authorization):
        return _v4(request, keys, now, *found.groups())
    if found := _V2.match(authorization):
        return _v2(request, keys, now, *found.groups())
    query = dict(request.parameters)
    for prefix, name in (("OBS", "AccessKeyId"), ("AWS", "AWSAccessKeyId")):
        if name in query and "Expires" in query:
            return _in_query(request, keys, now, prefix, query[name], query)
    raise Refused("AccessDenied", "the request is not signed")


def _v2(
    request: Signed, keys: Mapping[str, str], now: datetime, kind: str, access: str, signature: str, expires: str = ""
) -> str:
    prefix = "x-obs-" if kind == "OBS" else "x-amz-"
    own = request.headers.get(prefix + "date")
    if not expires:
        _check_time(_spelled(own or request.headers.get("date", "")), now, "RequestTimeTooSkewed")
    date = expires or ("" if own else request.headers.get("date", ""))
    fixed = [request.headers.get("content-md5", ""), request.headers.get("content-type", ""), date]
    extra = [f"{name}:{value.strip()}" for name, value in sorted(request.headers.items()) if name.startswith(prefix)]
    subs = sorted((k, v) for k, v in request.parameters if k.lower() in _SUB_RESOURCES or k.lower().startswith(prefix))
    tail = "?" + "&".join(f"{k}={v}" if v else k for k, v in subs) if subs else ""
    secret = _secret(access, keys, "InvalidAccessKeyId")
    # A client signs the name of a bucket with or without a slash at its end.
    names = dict.fromkeys((request.path, request.path.rstrip("/") or "/", request.path.rstrip("/") + "/"))
    texts = ["\n".join([request.method, *fixed, *extra, name + tail]) for name in names]
    good = [
        base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode() for text in texts
    ]
    if not any(hmac.compare_digest(one, signature) for one in good):
        raise Refused("SignatureDoesNotMatch", "the signature does not match")
    return access


def _in_query(
    request: Signed, keys: Mapping[str, str], now: datetime, kind: str, access: str, query: Mapping[str, str]
) -> str:
    if not query["Expires"].isdigit() or int(query["Expires"]) < now.timestamp():
        raise Refused("AccessDenied", "the signed address has expired")
    return _v2(request, keys, now, kind, access, query.get("Signature", ""), query["Expires"])


def _v4(request: Signed, keys: Mapping[str, str], now: datetime, credential: str, signed: str, signature: str) -> str:
    access, *scope = credential.split("/")
    if len(scope) != 4 or scope[3] != "aws4_request":
        raise Refused("AuthorizationHeaderMalformed", "the credential has no scope")
    date = request.headers.get("x-amz-date") or request.headers.get("x-obs-date") or ""
    if not date:
        date = _spelled(request.headers.get("date", "")).strftime("%Y%m%dT%H%M%SZ")
    _check_time(_compact(date), now, "RequestTimeTooSkewed")
    query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(request.parameters))
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in signed.split(";"))
    declared = request.headers.get("x-amz-content-sha256") or request.headers.get("x-obs-content-sha256") or ""
    if declared != "UNSIGNED-PAYLOAD" and declared != hashlib.sha256(request.body).hexdigest():
        raise Refused("XAmzContentSHA256Mismatch", "the body is not what was signed")
    path = "/".join(quote(unquote(part), safe="~") for part in request.path.split("/"))
    canonical = "\n".join([request.method, path, query, headers, signed, declared])
    text = "\n".join(["AWS4-HMAC-SHA256", date, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + _secret(access, keys, "InvalidAccessKeyId")).encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    _compare(_hex(key, text), signature, "SignatureDoesNotMatch")
    return access


def _secret(access: str, keys: Mapping[str, str], code: str) -> str:
    if access not in keys:
        raise Refused(code, "the access key is not known")
    return keys[access]


def _hex(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _compare(good: str, signature: str, code: str) -> None:
    if not hmac.compare_digest(good, signature):
        raise Refused(code, "the signature does not match")


def _compact(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise Refused("AccessDenied", f"{text!r} is no date") from None


def _spelled(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return _compact(text)


def _check_time(signed: datetime, now: datetime, code: str) -> None:
    if abs((now - signed).total_seconds()) > _SKEW_SECONDS:
        raise Refused(code, "the clocks of client and service are more than 15 minutes apart")
