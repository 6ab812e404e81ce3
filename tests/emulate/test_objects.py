"""The emulated object store, asked by the official client in all its ways of signing, and by another one."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.emulate.conftest import obs_client
from trainmark.emulate.modelarts.server import Emulator


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_the_official_client_keeps_and_finds_objects(emulator: Emulator, signature: str, tmp_path: Path) -> None:
    client = obs_client(emulator, signature=signature, region="cn-north-4")
    assert client.createBucket("bench").status == 200
    assert client.headBucket("bench").status == 200
    assert client.putContent("bench", "out/V1/", content=None).status == 200
    assert client.putContent("bench", "名字 with spaces+plus.txt", content="0.77").status == 200
    assert client.getObject("bench", "名字 with spaces+plus.txt", loadStreamInMemory=True).body.buffer == b"0.77"
    folder = tmp_path / "code"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.py").write_text("a")
    (folder / "deep" / "b.py").write_text("b")
    client.putFile("bench", "code", str(folder))
    keys = [one.key for one in client.listObjects("bench", prefix="code/").body.contents]
    assert keys == ["code/a.py", "code/deep/b.py"]
    found = client.listObjects("bench", prefix="code/", delimiter="/")
    assert [one.prefix for one in found.body.commonPrefixs] == ["code/deep/"]
    assert client.deleteObject("bench", "code/a.py").status == 204
    assert client.getObject("bench", "code/a.py", loadStreamInMemory=True).status == 404
    assert client.putContent("nobucket", "x", content="x").errorCode == "NoSuchBucket"


def test_a_range_a_copy_and_pages(emulator: Emulator) -> None:
    client = obs_client(emulator)
    client.createBucket("bench")
    for number in range(5):
        client.putContent("bench", f"k/{number}", content=str(number) * 10)
    from obs import GetObjectHeader

    part = client.getObject("bench", "k/3", loadStreamInMemory=True, headers=GetObjectHeader(range="4-6"))
    assert (part.status, part.body.buffer) == (206, b"333")
    assert client.copyObject("bench", "k/3", "bench", "copied").status == 200
    assert client.getObject("bench", "copied", loadStreamInMemory=True).body.buffer == b"3" * 10
    keys, marker = [], None
    while True:
        page = client.listObjects("bench", prefix="k/", marker=marker, max_keys=2).body
        keys += [one.key for one in page.contents]
        marker = page.next_marker
        if not page.is_truncated:
            break
    assert keys == [f"k/{number}" for number in range(5)]


def test_an_upload_in_parts(emulator: Emulator, tmp_path: Path) -> None:
    client = obs_client(emulator)
    client.createBucket("bench")
    big = tmp_path / "big.bin"
    big.write_bytes(bytes(range(256)) * 4096 * 6)
    done = client.uploadFile("bench", "big", str(big), partSize=5 * 1024 * 1024, taskNum=2)
    assert done.status == 200
    back = tmp_path / "back.bin"
    assert client.downloadFile("bench", "big", str(back), taskNum=2).status == 200
    assert back.read_bytes() == big.read_bytes()


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_another_key_is_refused(emulator: Emulator, signature: str) -> None:
    client = obs_client(emulator, secret="wrong", signature=signature, region="cn-north-4")
    answer = client.createBucket("bench")
    assert (answer.status, answer.errorCode) == (403, "SignatureDoesNotMatch")
    assert emulator.objects.names() == []


def test_an_unsigned_request_is_refused(emulator: Emulator) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{emulator.url}/bench")
    assert refused.value.code == 403


def test_a_signed_address_can_be_read_until_it_expires(emulator: Emulator) -> None:
    client = obs_client(emulator)
    client.createBucket("bench")
    client.putContent("bench", "a b", content="x")
    url = client.createSignedUrl("GET", "bench", "a b", expires=60).signedUrl
    assert urllib.request.urlopen(url).read() == b"x"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url.replace("Expires=", "Expires=1"))


def test_amazons_client_is_understood_too(emulator: Emulator) -> None:
    """Another program that signs by the same rules: agreement with one client alone could be a shared mistake."""
    boto3 = pytest.importorskip("boto3")
    keys = emulator.keys
    client = boto3.client(
        "s3",
        endpoint_url=emulator.url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="bench")
    client.put_object(Bucket="bench", Key="a/名字 b.txt", Body=b"hello")
    assert client.get_object(Bucket="bench", Key="a/名字 b.txt", Range="bytes=1-2")["Body"].read() == b"el"
    assert [one["Key"] for one in client.list_objects(Bucket="bench", Prefix="a/")["Contents"]] == ["a/名字 b.txt"]


def test_objects_outlive_the_emulator(tmp_path: Path) -> None:
    with Emulator(tmp_path / "d") as first:
        obs_client(first).createBucket("bench")
        obs_client(first).putContent("bench", "k", content="v")
    with Emulator(tmp_path / "d") as second:
        assert second.keys == first.keys
        assert obs_client(second).getObject("bench", "k", loadStreamInMemory=True).body.buffer == b"v"
    assert (tmp_path / "d" / "credentials.json").stat().st_mode & 0o777 == 0o600
