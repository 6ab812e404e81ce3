"""OBS over HTTP: requests about buckets and objects, answered in XML as the official client reads it."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from trainmark.emulate.modelarts.answers import Answer
from trainmark.emulate.modelarts.objects import Objects, Stored, StoreError, pages
from trainmark.emulate.modelarts.signatures import Signed

_NAMESPACE = "http://obs.myhwclouds.com/doc/2015-06-30/"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")
_MOST_KEYS = 1000


class StoreService:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def answer(self, request: Signed) -> Answer:
        """May raise StoreError."""
        bucket, _, key = unquote(request.path.lstrip("/")).partition("/")
        query = dict(request.parameters)
        if not bucket:
            return self._buckets()
        if not key:
            return self._of_bucket(request, bucket, query)
        if "uploads" in query or "uploadId" in query:
            return self._of_upload(request, bucket, key, query)
        return self._of_object(request, bucket, key)

    # ---- buckets

    def _buckets(self) -> Answer:
        when = _stamp(time.time())
        rows = [
            f"<Bucket><Name>{name}</Name><CreationDate>{when}</CreationDate></Bucket>" for name in self._objects.names()
        ]
        return _xml("ListAllMyBucketsResult", f"{_owner()}<Buckets>{''.join(rows)}</Buckets>")

    def _of_bucket(self, request: Signed, bucket: str, query: dict[str, str]) -> Answer:
        if request.method == "HEAD":
            self._objects.bucket(bucket)
            return Answer(200, headers={"x-obs-bucket-location": "emulated"})
        if request.method == "PUT" and not query:
            self._objects.create(bucket)
            return Answer(200, headers={"Location": f"/{bucket}"})
        if request.method == "DELETE" and not query:
            self._objects.remove(bucket)
            return Answer(204)
        if request.method == "POST" and "delete" in query:
            return self._delete_many(request, bucket)
        if request.method == "GET" and "location" in query:
            self._objects.bucket(bucket)
            return Answer(200, f'<Location xmlns="{_NAMESPACE}">emulated</Location>'.encode(), "application/xml")
        if request.method == "GET" and not set(query) - {"prefix", "marker", "max-keys", "delimiter", "encoding-type"}:
            return self._listing(bucket, query)
        raise StoreError(501, "NotImplemented", "this is not emulated")

    def _listing(self, bucket: str, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = min(_MOST_KEYS, int(query.get("max-keys") or _MOST_KEYS))
        found = self._objects.below(bucket, prefix)
        objects, folders, following = pages(found, prefix, delimiter, query.get("marker", ""), most)
        rows = [
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><Marker>{escape(query.get('marker', ''))}</Marker>"
        ]
        rows.append(f"<MaxKeys>{most}</MaxKeys><Delimiter>{escape(delimiter)}</Delimiter>")
        rows.append(f"<IsTruncated>{'true' if following else 'false'}</IsTruncated>")
        if following:
            rows.append(f"<NextMarker>{escape(following)}</NextMarker>")
        rows += [_content(stored) for stored in objects]
        rows += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        return _xml("ListBucketResult", "".join(rows))

    def _delete_many(self, request: Signed, bucket: str) -> Answer:
        rows = []
        for key in _texts(request.body, "Key"):
            with self._objects.lock:
                self._objects.bucket(bucket).delete(key)
            rows.append(f"<Deleted><Key>{escape(key)}</Key></Deleted>")
        return _xml("DeleteResult", "".join(rows))

    # ---- objects

    def _of_object(self, request: Signed, bucket: str, key: str) -> Answer:
        if request.method == "PUT":
            return self._put(request, bucket, key)
        with self._objects.lock:
            found = self._objects.bucket(bucket)
            if request.method == "DELETE":
                found.delete(key)
                return Answer(204)
            stored = found.get(key)
            return _stretch(request, stored, found.path(stored))

    def _put(self, request: Signed, bucket: str, key: str) -> Answer:
        source = _header(request, "copy-source")
        if source is not None:
            name, _, inner = unquote(source).lstrip("/").partition("/")
            stored = self._objects.copy((name, inner), bucket, key)
            inside = f"<LastModified>{_stamp(stored.modified)}</LastModified><ETag>&quot;{stored.etag}&quot;</ETag>"
            return _xml("CopyObjectResult", inside)
        declared = request.headers.get("content-md5")
        if declared is not None and not _same_md5(declared, request.body):
            raise StoreError(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
        kind = request.headers.get("content-type", "")
        stored = self._objects.put(bucket, key, request.body, kind, _metadata(request))
        return Answer(200, headers={"ETag": f'"{stored.etag}"'})

    def _of_upload(self, request: Signed, bucket: str, key: str, query: dict[str, str]) -> Answer:
        if request.method == "POST" and "uploads" in query:
            upload = self._objects.begin(bucket, key, request.headers.get("content-type", ""), _metadata(request))
            inside = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            return _xml("InitiateMultipartUploadResult", inside)
        upload = query.get("uploadId", "")
        if request.method == "PUT" and query.get("partNumber", "").isdigit():
            etag = self._objects.add_part(upload, int(query["partNumber"]), request.body)
            return Answer(200, headers={"ETag": f'"{etag}"'})
        if request.method == "POST":
            wanted = list(zip(map(int, _texts(request.body, "PartNumber")), _texts(request.body, "ETag"), strict=True))
            stored = self._objects.complete(upload, wanted)
            inside = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><ETag>&quot;{stored.etag}&quot;</ETag>"
            return _xml("CompleteMultipartUploadResult", f"<Location>/{bucket}/{escape(key)}</Location>{inside}")
        if request.method == "DELETE":
            self._objects.abort(upload)
            return Answer(204)
        if request.method == "GET":
            rows = [
                f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag}&quot;</ETag><Size>{path.stat().st_size}</Size>"
                f"<LastModified>{_stamp(path.stat().st_mtime)}</LastModified></Part>"
                for number, (path, etag) in sorted(self._objects.parts(upload).items())
            ]
            inside = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            return _xml("ListPartsResult", f"{inside}<IsTruncated>false</IsTruncated>{''.join(rows)}")
        raise StoreError(501, "NotImplemented", "this is not emulated")


def of_error(error: StoreError) -> Answer:
    text = f"<Error><Code>{error.code}</Code><Message>{escape(str(error))}</Message></Error>"
    return Answer(error.status, text.encode(), "application/xml", {"x-obs-error-code": error.code})


def _stretch(request: Signed, stored: Stored, path: Path) -> Answer:
    headers = {
        "ETag": f'"{stored.etag}"',
        "Last-Modified": formatdate(stored.modified, usegmt=True),
        "Accept-Ranges": "bytes",
        **{f"x-obs-meta-{name}": value for name, value in stored.metadata.items()},
    }
    first, last, status = 0, stored.size - 1, 200
    asked = _RANGE.match(request.headers.get("range", ""))
    if asked and (asked[1] or asked[2]):
        first = int(asked[1]) if asked[1] else max(0, stored.size - int(asked[2]))
        last = min(stored.size - 1, int(asked[2])) if asked[1] and asked[2] else stored.size - 1
        if first >= stored.size or first > last:
            raise StoreError(416, "InvalidRange", "The requested range cannot be satisfied.")
        status, headers["Content-Range"] = 206, f"bytes {first}-{last}/{stored.size}"
    return Answer(status, b"", stored.content_type, headers, path, first, max(0, last - first + 1))


def _header(request: Signed, name: str) -> str | None:
    return request.headers.get(f"x-obs-{name}", request.headers.get(f"x-amz-{name}"))


def _metadata(request: Signed) -> dict[str, str]:
    found = {}
    for prefix in ("x-obs-meta-", "x-amz-meta-"):
        found.update({k[len(prefix) :]: v for k, v in request.headers.items() if k.startswith(prefix)})
    return found


def _same_md5(declared: str, body: bytes) -> bool:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode() == declared


def _texts(body: bytes, tag: str) -> list[str]:
    """The texts of all elements of a name. Documents with a DTD, which could be anything, are refused."""
    if b"<!" in body:
        raise StoreError(400, "MalformedXML", "The XML you provided was not well-formed")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - no DTD in it, so nothing to expand
    except ElementTree.ParseError:
        raise StoreError(400, "MalformedXML", "The XML you provided was not well-formed") from None
    return [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == tag]


def _content(stored: Stored) -> str:
    return (
        f"<Contents><Key>{escape(stored.key)}</Key><LastModified>{_stamp(stored.modified)}</LastModified>"
        f"<ETag>&quot;{stored.etag}&quot;</ETag><Size>{stored.size}</Size>{_owner()}"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def _owner() -> str:
    return "<Owner><ID>emulated</ID></Owner>"


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _xml(name: str, inside: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="{_NAMESPACE}">{inside}</{name}>'
    return Answer(200, text.encode(), "application/xml")
