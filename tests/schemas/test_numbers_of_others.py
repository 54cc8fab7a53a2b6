"""Numbers in what others wrote: a digit is an ASCII digit, and thousands of them are no traceback."""

from __future__ import annotations

import pytest

from bai.controller.systemd import SystemdNotifier
from bai.web.request_limits import _content_length
from bai.web.server import open_socket
from planner.simulation.measures import _natural_order
from providers.docker.usage import parse_gpu_usage
from providers.forge.ci import _gitlab_run
from providers.health.node.kernel_log import _LINE
from providers.health.node.smi import active_links
from providers.machines.ssh.route import _split_host_port
from schemas.hardware.mig import profile_on
from schemas.hardware.model import Gpu
from schemas.hardware.sysfs.devices import _natural_key
from schemas.images.labels import parse_labels
from schemas.kinds.parts.docker import _validate_host
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.forge import ForgeUnknown
from schemas.profile.versions.version_numbers import version_numbers
from schemas.values.linux_users import is_root, numeric_id
from schemas.values.naturals import LARGEST, parse_natural

LONG = "9" * 5000
ODD = ["²", "٣", LONG, "", "-1", "+1", "1_0", " 1", "1\n", "0x1"]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_what_is_no_number_is_none(text: str) -> None:
    assert parse_natural(text) is None
    assert parse_natural(text.encode()) is None
    assert numeric_id(text) is None


def test_numbers_are_read_up_to_their_limit() -> None:
    assert [parse_natural(text) for text in ("0", "007", "9223372036854775807")] == [0, 7, LARGEST]
    assert parse_natural("9223372036854775808") is None
    assert (parse_natural("65535", 65_535), parse_natural("65536", 65_535)) == (65_535, None)
    assert (parse_natural("0" * 5000 + "1"), is_root("0" * 5000)) == (1, True)


@pytest.mark.parametrize("text", ["²", LONG], ids=["superscript", "thousands"])
def test_whoever_reads_a_number_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        _split_host_port(f"node:{text}")
    with pytest.raises(ValueError, match=r"\[host\]:port"):
        _split_host_port(f"[::1]:{text}")
    with pytest.raises(ValueError, match="tcp://host:port"):
        _validate_host(f"tcp://node:{text}")
    with pytest.raises(CommandError):
        open_socket(f"127.0.0.1:{text}")
    with pytest.raises(ForgeUnknown):
        _gitlab_run({"CI_MERGE_REQUEST_IID": text})
    assert _natural_order(f"{text} GPUs") == (0, 0, f"{text} GPUs")
    usage = parse_gpu_usage(f"GPU-1, {text}, {text}")["GPU-1"]
    assert (usage.busy, usage.memory) == (None, None)
    assert not parse_labels({"ai.backend.service-ports": f"web:http:[{text}]"}).ports
    assert SystemdNotifier({"WATCHDOG_USEC": text, "NOTIFY_SOCKET": "/none"}).period == 0
    assert profile_on(Gpu(id="", index=0), f"{text}g.{text}gb") is None
    assert not active_links(f"GPU {text}: NVIDIA\n Link 0: 25 GB/s\n")
    assert _LINE.match(f"{text},{text},{text},-;NVRM") is None
    assert len(version_numbers(f"{text}.1")) <= 1


def test_a_length_that_is_too_long_is_the_longest() -> None:
    scope = {"type": "http", "headers": [(b"content-length", LONG.encode())]}
    assert _content_length(scope) == LARGEST


def test_names_with_long_numbers_are_ordered_by_them() -> None:
    names = ["mlx5_" + LONG, "mlx5_10", "mlx5_9", "mlx5_2"]
    assert sorted(names, key=_natural_key) == ["mlx5_2", "mlx5_9", "mlx5_10", "mlx5_" + LONG]
