"""The provider on a real cluster: what is asked is what pods, claims and the cluster say."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from providers.base import File, Network, RestartRule
from providers.kubernetes.observe.nodes import parse_node
from providers.kubernetes.provider import KubernetesProvider
from tests.lab import huge_pages
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.api import CORE
from tests.lab.kubernetes.gpus import gpu_uuid
from tests.providers.kubernetes.conftest import Cluster, once, seen
from tests.providers.kubernetes.specs import ID, LABELS, MIB, UID, kernel, script
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")


TELLS = """
echo devices $NVIDIA_VISIBLE_DEVICES
echo nodes $(ls /dev | grep nvidia)
echo user $(id -u) $(id -g)
echo caps $(awk '/CapBnd|NoNewPrivs|Seccomp:/ {print $2}' /proc/self/status)
echo secret $(printf %s "$PASSWORD" | sha256sum)
echo file $(cat $TOPOLOGY)
echo shm $(df -k /dev/shm | tail -1)
echo plain "$PLAIN"
echo host $(hostname)
echo here $(pwd)
echo account $(ls /var/run/secrets 2>&1 | wc -l)
trap 'echo saved; exit 4' TERM
echo ready
sleep 1000000 & wait
"""


PAGES = "hugepages-2Mi"
TAKES = """
grep ' /dev/hugepages ' /proc/mounts
/bin/busybox fallocate -l 6291456 /dev/hugepages/mine && echo taken
trap 'exit 0' TERM
sleep 1000000 & wait
"""
"""What is in a file of theirs is taken, without a program that maps it."""


def told(text: str) -> dict[str, list[str]]:
    return {words[0]: words[1:] for words in map(str.split, text.splitlines()) if words}


def test_a_kernel_is_what_the_plan_says_and_then_gone(pair: Cluster) -> None:
    provider = pair.open()
    password, wanted = "it's; $HOME\n", (gpu_uuid("n0", 5), gpu_uuid("n0", 2))
    spec = script(
        TELLS, devices=wanted, cpus=(1,), memory=64 * MIB, shm=8 * MIB, hostname="main1",
        env={"PLAIN": "$(HOME) $$x"}, secret_env={"PASSWORD": password}, stop_grace=20.0,
        files=(File("a.xml", "<system/>", "TOPOLOGY"),),
    )  # fmt: skip
    made = provider.create(spec)
    assert (made.id, made.labels) == (ID, LABELS) and made.state in ("starting", "running")
    found = once(provider, "running")
    assert (found.labels, found.memory, found.reason) == (LABELS, 64 * MIB, "")
    pod = pair.get("pods", ID)
    assert (pod["spec"]["nodeName"], pod["status"]["qosClass"]) == ("n0", "Guaranteed")
    assert "it's" not in str(pod)

    def says() -> dict[str, list[str]] | None:
        return told(pair.log(ID)) if "ready" in pair.log(ID) else None

    inside = until(says, "it has said what it has", pause=0.1)
    assert sorted(inside["devices"][0].split(",")) == sorted(wanted)
    assert inside["nodes"] == ["nvidia2", "nvidia5"]
    assert inside["user"] == [str(UID)] * 2
    assert inside["caps"] == ["0" * 16, "1", "2"] and inside["account"] == ["1"]
    assert inside["secret"][0] == hashlib.sha256(password.encode()).hexdigest()
    assert inside["file"] == ["<system/>"] and inside["shm"][1] == "8192"
    assert inside["plain"] == ["$(HOME)", "$$x"] and inside["host"] == ["main1"]

    provider.remove(ID)
    assert seen(provider) is None and not pair.claims()
    provider.create(script(TELLS, devices=wanted, secret_env={"PASSWORD": "new"}, files=spec.files))
    once(provider, "running")
    other = until(says, "the next one has said what it has", pause=0.1)
    assert other["secret"][0] == hashlib.sha256(b"new").hexdigest()
    provider.remove(ID)
    pair.is_empty()


@pytest.mark.skipif(bool(huge_pages.why_not()), reason=huge_pages.why_not() or "there are huge pages")
def test_a_kernel_has_huge_pages_and_those_of_others_are_use(pair: Cluster) -> None:
    provider, n0 = pair.open(), pair.lab.nodes["n0"]

    def offered() -> int:
        return parse_node(pair.lab.api.get(f"{CORE}/nodes/n0")).hugepages.get(PAGES, 0)

    with huge_pages.set_aside(8):
        n0.restart(n0.kubelet)
        try:
            most = huge_pages.total()  # It may have begun before when a test had set aside some others.
            until(lambda: offered() == most, "the kubelet has seen them", pause=0.2)
            _takes_pages_beside_others(pair, provider, most)
        finally:
            pair.lab.api.call("DELETE", f"{pair.path('pods')}?gracePeriodSeconds=1")
            until(lambda: not pair.lab.api.get(pair.path("pods"))["items"], "its pods are gone", pause=0.1)
    n0.restart(n0.kubelet)
    until(lambda: offered() < most, "the kubelet has seen that they are gone", pause=0.2)


def _takes_pages_beside_others(pair: Cluster, provider: KubernetesProvider, most: int) -> None:
    found, _ = provider.hardware(frozenset({"n0"}))
    assert sum(each.hugepages.get("2Mi", 0) for each in found["n0"].numa_nodes) == most
    asked = {"memory": "32Mi", PAGES: "4Mi"}
    main = {"name": "main", "image": IMAGE, "command": ["sleep", "1000"], "resources": {"limits": asked}}
    pair.lab.pod(
        pair.namespace, {"metadata": {"name": "theirs"}, "spec": {"nodeName": "n0", "containers": [main]}}
    )
    assert pair.use(provider, "n0").hugepages == {PAGES: 4 << 20}

    free = huge_pages.free()
    provider.create(script(TAKES, cpu_milli=10, memory=32 * MIB, hugepages={PAGES: 6 << 20}))
    once(provider, "running")
    until(lambda: "taken" in pair.log(ID), lambda: f"it takes its pages: {pair.log(ID)}", pause=0.1)
    assert "hugetlbfs" in pair.log(ID) and "pagesize=2M" in pair.log(ID)
    assert huge_pages.free() == free - 3
    assert pair.get("pods", ID)["status"]["qosClass"] == "Guaranteed"
    provider.remove(ID)
    until(lambda: huge_pages.free() == free, "they are free again")
    provider.create(kernel(memory=32 * MIB, cpu_milli=10, hugepages={PAGES: most}))
    assert once(provider, "lost").reason.startswith("OutOfhugepages-2Mi")
    provider.remove(ID)


def test_what_waits_or_is_always_restarted_can_be_stopped(pair: Cluster) -> None:
    provider = pair.open()
    image = provider.create(kernel("image-g1", image="127.0.0.1:1/nowhere:1"))
    assert image.state == "starting"

    def waits() -> bool:
        found = seen(provider, "image-g1")
        return found is not None and found.state == "starting" and "Image" in found.reason

    until(waits, lambda: f"it is said why there is no image: {seen(provider, 'image-g1')}", pause=0.1)
    stopped = provider.stop("image-g1", grace=0)
    assert (stopped.state, stopped.exit_code, stopped.reason) == ("exited", None, "stopped")
    provider.create(kernel("ever-g1", restart=RestartRule("always")))
    once(provider, "running", "ever-g1")
    stopped = provider.stop("ever-g1", grace=0)
    assert (stopped.state, stopped.reason) == ("exited", "stopped")


def test_members_of_a_session_find_each_other_by_name(pair: Cluster) -> None:
    provider = pair.open()
    text = """
    echo $(hostname) > /tmp/index.html; httpd -p 8080 -h /tmp
    until wget -q -O - http://$OTHER:8080/ 2>/dev/null; do sleep 0.2; done; sleep 1000
    """
    names = {"main1": "n0", "sub1": "n1"}
    for (name, at), other in zip(names.items(), reversed(names), strict=True):
        labels = replace(LABELS, kernel=name, node=at)
        network = Network("overlay", "bai-p-s", aliases=(name,))
        provider.create(
            script(text, f"s-{name}-0-g1", labels=labels, hostname=name, env={"OTHER": other},
                   network=network, user="1000")
        )  # fmt: skip
    for name, other in zip(names, reversed(names), strict=True):
        until(lambda: getattr(seen(provider, f"s-{name}-0-g1"), "state", "") == "running", pause=0.1)  # noqa: B023
        until(lambda: pair.log(f"s-{name}-0-g1").split() == [other], f"{name} heard {other}", pause=0.2)  # noqa: B023
    provider.remove("s-main1-0-g1")
    assert pair.get("services", "bai-p-s") is not None
    provider.remove("s-sub1-0-g1")
    pair.is_empty()
