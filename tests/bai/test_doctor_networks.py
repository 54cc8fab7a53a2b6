"""What the doctor says about overlays."""

from __future__ import annotations

from bai.cli.doctor.networks import swarm_findings
from providers.base import Capabilities


def said(
    overlays: dict[str, str], no_overlay: dict[str, str], *, demanded: bool = False
) -> list[tuple[str, str]]:
    can = Capabilities("docker", frozenset(), overlays=overlays, no_overlay=no_overlay)
    return [
        (each.status, each.message) for each in swarm_findings(can, ["n1", "n2", "n3"], demanded=demanded)
    ]


def test_one_swarm_is_well() -> None:
    assert said(dict.fromkeys(("n1", "n2", "n3"), "s"), {}) == [("ok", "3 nodes in one swarm")]


def test_who_is_in_none_is_named() -> None:
    found = said({"n1": "s", "n2": "s"}, {"n3": "is in no swarm"})
    assert found == [("warning", "is in no swarm"), ("ok", "2 nodes in one swarm")]
    assert said({"n1": "s", "n2": "s"}, {}, demanded=True)[0] == ("failed", "does not answer")


def test_two_swarms_do_not_meet() -> None:
    found = said({"n1": "s", "n2": "t", "n3": "t"}, {})
    assert found == [
        ("warning", "1 node in one swarm of 2: n1"),
        ("warning", "2 nodes in one swarm of 2: n2, n3"),
    ]
