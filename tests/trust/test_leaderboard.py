"""Leaderboards: places, prices, feeds, and nothing of a bundle's words that a shell or a page would obey."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.trust.honest import SHAPE, honest_run, nodes, packed
from trainmark import api
from trainmark.errors import UserError
from trainmark.store import rundir
from trainmark.store.rundir import RunDir
from trainmark.trust import leaderboard, verify


def edited(run: RunDir, **site: object) -> RunDir:
    path = run.path / rundir.MANIFEST
    content = json.loads(path.read_text())
    content["plan"]["site"].update(site)
    path.write_text(json.dumps(content))
    return RunDir(run.path)


def rows_of(bundle: Path) -> list[leaderboard.Row]:
    rows, _ = leaderboard._entries(bundle, verify.verify(bundle), bundle.parent)
    return rows


def test_ties_share_a_place(tmp_path: Path) -> None:
    slow = msgspec.structs.replace(SHAPE, seconds=0.3)
    made = [
        packed(honest_run(tmp_path / name, seed=seed, shape=shape), tmp_path / f"{name}.tmk")
        for name, seed, shape in (("a", 1, SHAPE), ("b", 2, SHAPE), ("c", 3, slow))
    ]
    found = [row for path in made for row in rows_of(path)]
    rows = sorted(found, key=lambda row: -row.value)
    assert leaderboard.places(rows) == [1, 1, 3]
    leaderboard.write(made, tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.count("1 (tie)") >= 1
    assert "1（并列）" in page


def test_a_site_that_tells_its_price_is_ranked_by_what_money_buys(run: RunDir, tmp_path: Path) -> None:
    made = packed(edited(run, price={"per_hour": 3.6, "currency": "EUR"}), tmp_path / "x.tmk")
    (row,) = rows_of(made)
    assert row.price == pytest.approx(1000 * row.value)
    assert row.currency == "EUR"
    leaderboard.write([made], tmp_path / "site")
    assert "/ EUR" in (tmp_path / "site" / "index.html").read_text()


def test_a_price_is_a_key_of_a_site(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("name: here\nprice: {per_hour: 2.5, currency: CNY}\n")
    site = api.site(tmp_path / "site.yaml")
    assert site.price is not None and (site.price.per_hour, site.price.currency) == (2.5, "CNY")
    for wrong in ("{per_hour: -1, currency: CNY}", "{per_hour: 1, currency: yuan}", "12"):
        (tmp_path / "site.yaml").write_text(f"name: here\nprice: {wrong}\n")
        with pytest.raises(UserError, match="price"):
            api.site(tmp_path / "site.yaml")


def test_a_run_in_two_bundles_is_listed_once_and_not_when_they_differ(run: RunDir, tmp_path: Path) -> None:
    first, second = packed(run, tmp_path / "a.tmk"), packed(run, tmp_path / "b.tmk", logs=False)
    assert all(one.verified for one in leaderboard.write([first, second], tmp_path / "site"))
    assert len(json.loads((tmp_path / "site" / "feed.json").read_text())["items"]) == 1
    log = nodes(run)[0] / "rank0.out.log"
    log.write_text(log.read_text() + "more\n")
    third = packed(run, tmp_path / "c.tmk")
    assert not any(one.verified for one in leaderboard.write([first, third], tmp_path / "site"))
    assert json.loads((tmp_path / "site" / "feed.json").read_text())["items"] == []
    assert list((tmp_path / "site" / "bundles").iterdir()) == []


def test_words_of_a_bundle_mean_nothing_to_a_shell_a_page_or_a_feed(run: RunDir, tmp_path: Path) -> None:
    (row,) = rows_of(made := packed(run, tmp_path / "a #1.tmk"))
    evil = msgspec.structs.replace(row, case="x; rm -rf ~", system="<script>alert(1)</script>")
    assert leaderboard.reproduce(evil) == "trainmark run 'x; rm -rf ~'"
    assert "<script>alert" not in leaderboard.show(leaderboard.page_of([evil], "t"), "html")
    ElementTree.fromstring(leaderboard._rss([evil], "a & b"))
    leaderboard.write([made], tmp_path / "site")
    links = re.findall(r'href="((?:bundles|verified)/[^"]*)"', (tmp_path / "site" / "index.html").read_text())
    assert {"bundles/a%20%231.tmk", "verified/a%20%231.tmk.html"} <= set(links)


def test_another_folder_is_not_overwritten(run: RunDir, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="something else"):
        leaderboard.write([packed(run, tmp_path / "x.tmk")], run.path)
