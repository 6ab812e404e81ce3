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


def fill_hosts(plan: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    """`%HOST0%` and the others become the hosts that a scheduler gave, in the order of the plan's nodes."""

    def fill(text: str) -> str:
        for index, host in enumerate(hosts):
            text = text.replace("%%HOST%d%%" % index, host)
        return text

    return dict(_mapped(plan, fill), host=hosts[plan["node"]])


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
