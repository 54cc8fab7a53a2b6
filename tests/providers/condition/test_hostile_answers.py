"""Nodes that answer half, or with what no text can hold: told of that node, and of no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from providers.condition import query
from providers.health.query import query_facts, query_health
from providers.health.values import ExpectedNode
from providers.machines.base import Done, Endpoint
from providers.machines.local import LocalMachine
from reconciler.values.provision_status import condition_json
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import ProviderError

WHOLE = {
    "seal": None, "problem": "", "deviations": [], "os": "debian-12", "kernel": "6.1", "bootId": "b",
    "rebootPending": "",
}  # fmt: skip
ODD = [
    b"", b"{", b"null", b"[]", b"3", b'"x"', b"{}", json.dumps(WHOLE).encode()[:40], b"\xff\xfe",
    json.dumps({**WHOLE, "seal": 5}).encode(),
    json.dumps({**WHOLE, "seal": {"profile": "p", "fingerprint": "f", "document": 7}}).encode(),
    json.dumps({**WHOLE, "seal": {"profile": "p", "fingerprint": "f", "at": "soon"}}).encode(),
    json.dumps({**WHOLE, "deviations": [["one"]]}).encode(),
    json.dumps({**WHOLE, "deviations": 9}).encode(),
    b"[" * 100_000,
]  # fmt: skip


class Says(LocalMachine):
    def __init__(self, out: bytes, name: str = "odd") -> None:
        super().__init__(name)
        self._out = out

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Done:
        return Done(0, self._out, b"")


@pytest.mark.parametrize("out", ODD, ids=range(len(ODD)))
def test_half_an_answer_is_an_error_of_that_node(out: bytes) -> None:
    with pytest.raises(ProviderError):
        query.observe_condition(Says(out))
    with pytest.raises(BaiError):
        query_facts(Says(out))


@pytest.mark.parametrize("out", ODD, ids=range(len(ODD)))
def test_the_others_are_heard(out: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"odd": Says(out), "fine": Says(json.dumps(WHOLE).encode(), "fine")}
    monkeypatch.setattr(query, "connect", lambda endpoint: answers[endpoint.name])
    found, problems = query.observe_conditions([Endpoint("odd", "192.0.2.1"), Endpoint("fine", "192.0.2.2")])
    assert set(found) == {"fine"} and set(problems) == {"odd"}
    health = query_health({"odd": lambda: answers["odd"]}, {"odd": ExpectedNode()})
    assert health["odd"].problem


def test_names_of_files_that_are_no_text_can_be_kept(tmp_path: Any) -> None:
    """A link to a name in some old encoding is watched on the node: Python passes it on as half a letter."""
    link = tmp_path / "link"
    link.symlink_to(b"caf\xe9".decode(errors="surrogateescape"))
    from providers.condition.node.state import state

    seen = state({"files": [str(link)]})
    deviations = [["file x", "absent", seen[f"file {link}"]]]
    condition = query.observe_condition(Says(json.dumps({**WHOLE, "deviations": deviations}).encode()))
    assert "caf" in condition_json(condition)
    condition.deviations[0].found.encode()
