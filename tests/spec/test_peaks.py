"""What is kept of a site, and what is taken from it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from trainmark.errors import UserError
from trainmark.spec import peaks, site
from trainmark.spec.peaks import Matmul, Message, Peaks, Product


def made(**more: object) -> Peaks:
    matmul = [Matmul(host, 2, "fp32", flops, flops, 10.1) for host, flops in (("n1", 1e12), ("n2", 2e12))]
    matmul.append(Matmul("n1", 2, "bf16", 9e12, 9e12, 0.5))
    messages = [
        Message("between", "all_reduce", size, 2, 1e-4 + size / 1e9, 0.0, 0.0) for size in (1 << 10, 1 << 16, 1 << 26)
    ]
    known = {"matmul": matmul, "messages": messages, **more}
    return Peaks(1, "s", "cpu", 0.0, "run", ["n1", "n2"], **known)  # type: ignore[arg-type]


def test_only_what_was_measured_just_so_is_a_peak() -> None:
    found = made()
    assert found.reachable(["n1", "n2"], 2, "fp32") == 3e12
    assert found.reachable(["n1"], 1, "fp32") is None, "other threads"
    assert found.reachable(["n1", "n3"], 2, "fp32") is None, "a host that nobody measured"
    assert found.reachable(["n1"], 2, "bf16") is None, "too short to be kept up"


def test_others_are_not_held_against_what_was_tried_for_a_moment() -> None:
    found = made(products=[Product("n1", 2, dtype, 64, 10.0, 1e9) for dtype in ("fp32", "bf16")]).usable()
    assert [(one.host, one.dtype) for one in found.matmul] == [("n1", "fp32"), ("n2", "fp32")]
    assert [one.dtype for one in found.products] == ["fp32"] and found.messages == made().messages


def test_latency_and_bandwidth_are_told_apart() -> None:
    line = made().line("all_reduce", "between")
    assert line is not None
    assert (line.latency, line.bandwidth) == (pytest.approx(1e-4), pytest.approx(1e9))
    assert made().line("all_reduce", "within") is None


def test_they_lie_beside_the_site(tmp_path: Path) -> None:
    file = site.peaks_file(tmp_path / "my.site.yaml", "here")
    assert file == tmp_path / "my.site.peaks.json" and peaks.load(file) is None
    file.write_bytes(msgspec.json.encode(made()))
    assert peaks.load(file) == made()
    file.write_bytes(b'{"schema": 1, "site": 3}')
    with pytest.raises(UserError, match=r"broken: .* remove it and run `trainmark peaks` again"):
        peaks.load(file)
