"""What is known of an attempt only when it starts: the ports its ranks agreed on, and the hosts it got."""

from __future__ import annotations

from trainmark.agent.ranks import fill_ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_PORT = ":%PORT"
_BEFORE_A_HOST = '", '


def agree_on(plan: dict[str, Any], ports: list[int]) -> dict[str, Any]:
    """The agreed ports: held by the agent of the first node, plain numbers for all others."""
    if plan["node"] == 0:
        return dict(plan, ports=ports)
    return dict(_mapped(plan, lambda text: fill_ports(text, ports)), ports=[])


def fill_hosts(plan: dict[str, Any], hosts: dict[str, str]) -> dict[str, Any]:
    """Planned names of hosts become those that the scheduler gave: whole values, lists of them, or before a port."""

    def fill(text: str) -> str:
        names = text.split(",")
        if all(name in hosts for name in names):
            return ",".join(hosts[name] for name in names)
        return _addresses(text, hosts)

    filled = _mapped(plan, fill)
    return dict(filled, host=hosts.get(plan["host"], plan["host"]))


def _addresses(text: str, hosts: dict[str, str]) -> str:
    """`any0:%PORT0%`, alone or in a list, with the host's real name."""
    if _PORT not in text:
        return text
    pieces = text.split(_PORT)
    for number, piece in enumerate(pieces[:-1]):
        at = 1 + max(piece.rfind(letter) for letter in _BEFORE_A_HOST)
        pieces[number] = piece[:at] + hosts.get(piece[at:], piece[at:])
    return _PORT.join(pieces)


def _mapped(plan: dict[str, Any], fill: Callable[[str], str]) -> dict[str, Any]:
    def filled(process: dict[str, Any]) -> dict[str, Any]:
        env = {name: fill(value) for name, value in process["env"].items()}
        return dict(process, argv=[fill(word) for word in process["argv"]], env=env)

    return dict(
        plan,
        ranks=[filled(rank) for rank in plan["ranks"]],
        helpers=[filled(helper) for helper in plan.get("helpers") or ()],
        env={name: fill(value) for name, value in plan["env"].items()},
    )
