"""Output of pods of a real cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from providers.kubernetes.interaction.logs import read_logs
from providers.kubernetes.objects.names import PodRef
from schemas.problems.errors.kernel import KernelNotFound
from tests.providers.kubernetes.interaction.conftest import Line, Pods
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
WAITS = "while ! [ -e /%d ]; do sleep 0.3; done"
RUNS = 6
COUNT = "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; %s done; exit 3"


def text_of(chunks: Iterator[bytes]) -> str:
    return b"".join(chunks).decode()


class Follower(threading.Thread):
    """Reads on, beside the test."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__(daemon=True)
        self._chunks = chunks
        self.text = ""
        self.start()

    def run(self) -> None:
        for data in self._chunks:
            self.text += data.decode()

    def ended(self) -> str:
        self.join(120)
        assert not self.is_alive(), self.text
        return self.text


def lines(first: int, last: int) -> str:
    return "".join(f"line {i}\n" for i in range(first, last + 1))


def test_output_is_told_whole_in_part_and_from_a_time_on(pods: Pods) -> None:
    # What comes by the one pipe is written down before the other one has anything.
    pod = pods.run(f"echo one; {WAITS % 1}; echo two >&2; {WAITS % 2}; echo three; printf four")
    for said, path in (("one\n", "/1"), ("one\ntwo\n", "/2")):
        until(lambda: text_of(read_logs(pods.client, pod)) == said, f"{said!r} is kept")  # noqa: B023
        moment = datetime.now(UTC)
        pods.let_go(pod, path)
    assert text_of(read_logs(pods.client, pod, follow=True)) == "one\ntwo\nthree\nfour"
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "one\ntwo\nthree\nfour"),
        ({"tail": 2}, "three\nfour"),
        ({"tail": 0}, ""),
        ({"tail": 1, "follow": True}, "four"),
        ({"since": moment}, "three\nfour"),
        ({"since": datetime.now(UTC) + timedelta(hours=1)}, ""),
    ]
    for asked, expected in cases:
        assert text_of(read_logs(pods.client, pod, **asked)) == expected, asked


def test_who_follows_from_before_the_beginning_hears_all(pods: Pods) -> None:
    pod = pods.create(COUNT % (5, "sleep 0.2;"))
    assert Follower(read_logs(pods.client, pod, follow=True)).ended() == lines(1, 5)


def keeps_run_before(pods: Pods, pod: PodRef) -> bool:
    """Whether its kubelet does, which each minute throws away what does not run, but for the newest: where
    that is the next run's container, made and not begun yet, the run before is lost (kuberuntime_gc.go)."""
    kept = pods.lab.kubectl("logs", "-n", pod.namespace, pod.name, "--previous")
    return kept == "begins\nends\n"


def test_who_follows_goes_on_with_the_next_run_until_the_kernel_is_gone(pods: Pods) -> None:
    pod = pods.run(f"echo begins; {WAITS % 1}; echo ends; exit 1", restart="Always")
    heard = Follower(read_logs(pods.client, pod, follow=True))
    for run in range(RUNS):
        until(lambda: heard.text == "begins\nends\n" * run + "begins\n", lambda: heard.text)  # noqa: B023
        if run >= 2 and keeps_run_before(pods, pod):
            break
        pods.let_go(pod, "/1")
    # Of the run before, and of the one that waits.
    assert text_of(read_logs(pods.client, pod)) == "begins\nends\nbegins\n"
    assert text_of(read_logs(pods.client, pod, tail=2)) == "ends\nbegins\n"
    pods.lab.kubectl("delete", "pod", "-n", pod.namespace, pod.name, "--grace-period=1", "--wait=false")
    assert set(heard.ended().splitlines()) == {"begins", "ends"}


def test_a_connection_that_breaks_off_loses_and_doubles_nothing(pods: Pods, line: Line) -> None:
    pod = pods.run(COUNT % (400, "usleep 10000;"))
    heard = Follower(read_logs(line.client, pod, follow=True))
    for seen in (50, 120, 200):
        until(lambda seen=seen: f"line {seen}\n" in heard.text, lambda: heard.text[-50:])  # type: ignore[misc]
        line.cut()
        line.mend()
    assert heard.ended() == lines(1, 400)


def test_lines_longer_than_a_record_are_one_line(pods: Pods) -> None:
    pod = pods.run("head -c 50000 /dev/zero | tr '\\0' x; echo; echo after")
    expected = "x" * 50_000 + "\nafter\n"
    assert text_of(read_logs(pods.client, pod, follow=True)) == expected
    assert text_of(read_logs(pods.client, pod)) == expected


def test_what_has_not_begun_has_no_output_and_who_is_not_there_is_not_found(pods: Pods) -> None:
    pod = pods.create("true", "waiting", image="bai.invalid/none:1", imagePullPolicy="Never")
    assert text_of(read_logs(pods.client, pod)) == ""
    with pytest.raises(KernelNotFound):
        read_logs(pods.client, PodRef(pods.namespace, "nobody"), follow=True)
