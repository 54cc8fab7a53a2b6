"""What kubelets say that pods use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.abilities import Usage
from providers.kubernetes.interaction.usage import measure_all, parse_summary
from tests.providers.kubernetes.interaction.conftest import Pods
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")


def container(**fields: Any) -> dict[str, Any]:
    return {
        "name": "main",
        "cpu": {"time": "2026-01-01T12:00:00Z", "usageCoreNanoSeconds": 2_500_000_000},
        "memory": {"workingSetBytes": 100, "availableBytes": 28},
        **fields,
    }


def test_a_summary_is_understood() -> None:
    pod = {
        "podRef": {"uid": "u1", "name": "a", "namespace": "n"},
        "containers": [{"name": "sidecar", "memory": {"workingSetBytes": 7}}, container()],
        "network": {
            "interfaces": [
                {"name": "lo", "rxBytes": 5, "txBytes": 5},
                {"name": "eth0", "rxBytes": 10, "txBytes": 20},
                {"name": "rdma0", "rxBytes": 1, "txBytes": 2},
            ]
        },
        "process_stats": {"process_count": 3},
    }
    strangers = {"podRef": {"uid": "u2"}, "containers": [container()]}
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    (found,) = parse_summary({"pods": [strangers, pod]}, {"u1": "k"})
    assert found == Usage("k", at, 2.5, 100, 128, network_in=11, network_out=22, pids=3)


def test_what_is_not_said_is_not_known() -> None:
    bare = {"podRef": {"uid": "u"}, "containers": [{"name": "main"}]}
    (found,) = parse_summary({"pods": [bare]}, {"u": "k"})
    assert (found.cpu_seconds, found.memory, found.memory_limit, found.network_in, found.pids) == (None,) * 5
    unlimited = {
        "podRef": {"uid": "u"},
        "containers": [container(memory={"workingSetBytes": 5, "availableBytes": 0})],
    }
    assert [each.memory_limit for each in parse_summary({"pods": [unlimited]}, {"u": "k"})] == [None]


@pytest.mark.parametrize(
    "said", [None, 5, [], [5], [{"podRef": 5}], [{"podRef": {"uid": "u"}, "containers": 5}]]
)
def test_a_kubelet_that_says_something_else_is_no_harm(said: object) -> None:
    assert list(parse_summary({"pods": said}, {"u": "k"})) == []


def test_kernels_of_all_nodes_are_measured_and_nodes_that_refuse_left_out(pods: Pods) -> None:
    limit = {"limits": {"memory": "64Mi", "cpu": "500m"}}
    pod = pods.run("while :; do :; done", resources=limit)
    uid = pods.client.get(pod.path)["metadata"]["uid"]
    wanted = {"n1": {uid: "busy"}, "n0": {"no-such": "other"}, "nowhere": {uid: "nobody"}}

    def measured() -> Usage | None:
        found = list(measure_all(pods.client, wanted))
        return next((each for each in found if each.kernel == "busy" and each.cpu_seconds), None)

    found = until(measured, "the kubelet has looked")
    assert found.memory and found.memory_limit == 64 << 20
    more = until(
        lambda: next((one for one in [measured()] if one and one.cpu_seconds > found.cpu_seconds), None),  # type: ignore[operator]
        "it has used more",
    )
    assert more.at >= found.at
    reader = pods.account("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    assert list(measure_all(reader, wanted)) == []
