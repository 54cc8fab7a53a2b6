"""What is said of pods that do not start yet, and which requests that takes."""

from __future__ import annotations

from typing import Any

import pytest

from providers.kubernetes.observe.pods import OwnPod, parse_pod
from providers.kubernetes.observe.start_waits import StartEvent, StartWaits, parse_event, wait_reason
from tests.providers.kubernetes.specs import pod

CLAIM = {"name": "volume-1", "persistentVolumeClaim": {"claimName": "data-1"}}
FOLDER = {"name": "volume-1", "hostPath": {"path": "/srv/bai/p/v"}}
KEY = ("bai", "s-main1-0-g1")


def waiting(*volumes: dict[str, Any], state: dict[str, Any] | None = None, **spec: Any) -> OwnPod:
    found = parse_pod(pod("Pending", state or {"waiting": {"reason": "ContainerCreating"}}, spec={
        "nodeName": "n0", "volumes": list(volumes), **spec,
    }))  # fmt: skip
    assert found is not None
    return found


def event(
    kind: str, about: str, reason: str, message: str, at: str = "2026-01-01T00:00:00Z"
) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e-{at}-{reason}", "namespace": "bai", "resourceVersion": "9", "uid": at},
        "involvedObject": {"kind": kind, "name": about, "uid": about}, "reason": reason, "message": message,
        "lastTimestamp": at,
    }  # fmt: skip


def told(pods: dict[Any, OwnPod], events: list[Any], claims: dict[str, str] | None) -> tuple[str, list[str]]:
    """Why it waits, and what was asked for that; `claims` None: they may not be seen."""
    asked: list[str] = []

    class Client:
        def list(self, path: str) -> Any:
            from providers.kubernetes.api.client import ObjectList
            from providers.kubernetes.api.errors import ApiRefusal

            asked.append(path.rpartition("/")[2])
            if path.endswith("events"):
                return ObjectList(tuple(events), "10")
            if claims is None:
                raise ApiRefusal(403, "Forbidden", "no")
            listed = [
                {
                    "metadata": {"name": name, "namespace": "bai", "resourceVersion": "8"},
                    "status": {"phase": phase},
                }
                for name, phase in claims.items()
            ]
            return ObjectList(tuple(listed), "10")

    waits = StartWaits(Client())  # type: ignore[arg-type]
    waits.look()
    found = waits.reasons(pods)
    waits.close()
    return found.get(KEY, ""), asked


def test_nothing_is_asked_while_every_pod_runs_or_says_itself_why_not() -> None:
    running = waiting(CLAIM, state={"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    failing = waiting(CLAIM, state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    for found in (running, failing, waiting(CLAIM, nodeName="")):
        assert told({KEY: found}, [], {}) == ("", [])
    assert told({KEY: waiting(FOLDER)}, [], {}) == ("", ["events"])


PULLED = 'Successfully pulled image "r/i:1" in 3.2s (5s including waiting). Image size: 1234567890 bytes.'


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            [event("Pod", "u1", "Pulling", 'Pulling image "r/i:1"')],
            "pulling r/i:1 since 2026-01-01 00:00:00 UTC",
        ),
        (
            [
                event("Pod", "u1", "FailedMount", "of before", "2026-01-01T00:00:00Z"),
                event("Pod", "u1", "Pulled", PULLED, "2026-01-01T00:00:09Z"),
                event("Pod", "u1", "Pulling", 'Pulling image "r/i:1"', "2026-01-01T00:00:01Z"),
            ],
            "pulled r/i:1 in 3.2s, 1235 MB",
        ),
        ([event("Pod", "u1", "Pulled", 'Container image "r/i:1" already present on machine')], ""),
        ([event("Pod", "another", "Pulling", 'Pulling image "r/i:1"')], ""),
        ([event("Pod", "u1", "Pulling", "x" * 500)], "pulling its image since 2026-01-01 00:00:00 UTC"),
    ],
)
def test_how_far_its_image_is(events: list[Any], said: str) -> None:
    assert told({KEY: waiting()}, events, {}) == (said, ["events"])


@pytest.mark.parametrize(
    ("claims", "events", "said"),
    [
        ({"data-1": "Pending"}, [], "claim data-1 is Pending"),
        ({"other": "Bound"}, [], "there is no claim data-1: `bai apply` makes it"),
        ({"data-1": "Bound"}, [], ""),
        (
            {"data-1": "Pending"},
            [event("PersistentVolumeClaim", "data-1", "FailedBinding", "no persistent volumes available")],
            "claim data-1 is Pending: FailedBinding: no persistent volumes available; "
            "make a PersistentVolume, or name a storageClass in pvc",
        ),
        ({"data-1": "Bound"}, [event("PersistentVolumeClaim", "data-1", "FailedBinding", "of before")], ""),
        (
            {"data-1": "Bound"},
            [event("Pod", "u1", "FailedAttachVolume", "Multi-Attach error for volume pv-1")],
            "FailedAttachVolume: Multi-Attach error for volume pv-1; another node has it: end the session "
            "there, or give its storage host ReadWriteMany",
        ),
        ({"data-1": "Bound"}, [event("Pod", "another", "FailedMount", "x")], ""),
        ({"data-1": "Bound"}, [event("Pod", "u1", "Created", "x")], ""),
        (None, [event("Pod", "u1", "FailedMount", "node affinity conflict")], "placement.nodes"),
    ],
)
def test_why_it_waits(claims: dict[str, str] | None, events: list[Any], said: str) -> None:
    found, asked = told({KEY: waiting(CLAIM)}, events, claims)
    assert (found == said) if claims is not None else (said in found)
    assert asked == ["events", "persistentvolumeclaims"]


def test_the_last_word_counts_and_not_that_time_is_up() -> None:
    events = [
        event("Pod", "u1", "FailedMount", "first", "2026-01-01T00:00:01Z"),
        event("Pod", "u1", "FailedMount", "hostPath type check failed: x", "2026-01-01T00:00:02Z"),
        event("Pod", "u1", "FailedMount", "Unable to attach or mount volumes: [x]", "2026-01-01T00:00:03Z"),
    ]
    said, _ = told({KEY: waiting(FOLDER)}, events, {})
    assert said == (
        "FailedMount: hostPath type check failed: x; make the folder on that node, for the project's user"
    )
    assert told({KEY: waiting(FOLDER)}, events[2:], {})[0].startswith("FailedMount: Unable to attach")


def test_a_long_message_is_cut() -> None:
    found = StartEvent(("Pod", "u1"), "FailedMount", "x" * 5000, "")
    assert len(wait_reason(waiting(FOLDER), {found.subject: found}, {})) < 400


@pytest.mark.parametrize(
    "field",
    [{"eventTime": "b"}, {"lastTimestamp": None, "eventTime": "b"}, {"series": {"lastObservedTime": "b"}}],
)
def test_events_of_either_interface_have_a_time(field: dict[str, Any]) -> None:
    found = parse_event({**event("Pod", "u1", "FailedMount", "x", at=""), **field})
    assert found is not None and found.at == "b"
