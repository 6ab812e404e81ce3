"""Reasons that any room may give, and pieces of sentences that reasons are put together from."""

from __future__ import annotations

# code → (English, Chinese)
REASONS: dict[str, tuple[str, str]] = {
    "text": ("{text}", "{text}"),
    "on-host": ("{host}: {why}", "{host}：{why}"),
    "and-more": ("{items} and {count} more", "{items} 等，另有 {count} 个"),
}
