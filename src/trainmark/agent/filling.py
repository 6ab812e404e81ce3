"""What is known of an attempt only when it starts: the ports its ranks agreed on, and the hosts it got."""

from __future__ import annotations

from trainmark.agent.ranks import fill_ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def agree_on(plan: dict[str, Any], ports: list[int]) -> dict[str, Any]:
    """The agreed ports: held by the agent of the first node, plain numbers for all others."""
    if plan["node"] == 0:
        return dict(plan, ports=ports)
    return dict(_mapped(plan, lambda text: fill_ports(text, ports)), ports=[])


def fill_hosts(plan: dict[str, Any], hosts: dict[str, str]) -> dict[str, Any]:
    """Planned names of hosts become those that the scheduler gave. Only whole values, or lists of them, are names."""

    def fill(text: str) -> str:
        names = text.split(",")
        return ",".join(hosts[name] for name in names) if all(name in hosts for name in names) else text

    filled = _mapped(plan, fill)
    return dict(filled, host=hosts.get(plan["host"], plan["host"]))


def _mapped(plan: dict[str, Any], fill: Callable[[str], str]) -> dict[str, Any]:
    ranks = [
        dict(
            rank,
            argv=[fill(word) for word in rank["argv"]],
            env={name: fill(value) for name, value in rank["env"].items()},
        )
        for rank in plan["ranks"]
    ]
    return dict(plan, ranks=ranks, env={name: fill(value) for name, value in plan["env"].items()})
