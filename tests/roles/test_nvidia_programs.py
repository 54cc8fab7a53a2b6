"""The programs that roles put on nodes, run here against stand-ins."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from providers.ansible import roles_path

LIST = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb)
  MIG 1g.10gb     Device  0: (UUID: MIG-cccc)
  MIG 1g.10gb     Device  1: (UUID: MIG-dddd)
"""
TABLE = """+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   1  MIG 1g.10gb         19        7          4:1     |
+-------------------------------------------------------+
|   1  MIG 1g.10gb         19        8          5:1     |
+-------------------------------------------------------+
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """An nvidia-smi with one whole and one divided GPU; it writes down what it is told to do."""
    answers = {"list": LIST, "table": TABLE, "rows": "580.95.05, Disabled\n580.95.05, Enabled\n"}
    for name, text in answers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "modes").write_text("0, Disabled, Disabled\n1, Enabled, Enabled\n")
    script = f"""#!/bin/sh
cd {tmp_path}
case "$*" in
-L) cat list ;;
"mig -lgi") cat table ;;
--query-gpu=driver_version*) cat rows ;;
--query-gpu=index*) cat modes ;;
*--query-compute-apps*) cat apps 2>/dev/null || : ;;
*) echo "$*" >>told; case "$*" in *"-mig 1") sed -i 's/^0, .*/0, Enabled, Enabled/' modes ;; esac ;;
esac
"""
    (tmp_path / "nvidia-smi").write_text(script)
    (tmp_path / "nvidia-smi").chmod(0o755)
    return tmp_path


def run(name: str, *words: object, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(roles_path() / name), *map(str, words)], capture_output=True, text=True,
        check=False, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}, timeout=60,
    )  # fmt: skip


def layout(folder: Path, *layouts: dict[str, object]) -> Path:
    full = [{"gpus": [], "enabled": True, "instances": {}, **each} for each in layouts]
    (folder / "mig.json").write_text(json.dumps({"layouts": full}))
    return folder / "mig.json"


MIG = "mig/files/mig_layout.py"


def test_a_layout_that_is_there_is_left_alone(smi: Path) -> None:
    path = layout(smi, {"gpus": [1], "instances": {"1g.10gb": 2}}, {"enabled": False})
    done = run(MIG, "apply", path, path=smi)
    assert (done.returncode, done.stdout) == (0, "")
    assert not (smi / "told").exists()


def test_only_gpus_that_differ_are_divided(smi: Path) -> None:
    path = layout(
        smi, {"gpus": [0], "instances": {"3g.40gb": 1, "1g.10gb": 2}}, {"instances": {"1g.10gb": 2}}
    )
    assert run(MIG, "check", path, path=smi).stdout == ("GPU 0: whole -> MIG with 1 x 3g.40gb, 2 x 1g.10gb\n")
    assert run(MIG, "apply", path, path=smi).returncode == 0
    told = (smi / "told").read_text().splitlines()
    assert told == ["-i 0 -mig 1", "mig -i 0 -cgi 3g.40gb,1g.10gb,1g.10gb -C"]


def test_a_gpu_that_computes_is_not_divided(smi: Path) -> None:
    (smi / "apps").write_text("4711, python3\n")
    path = layout(smi, {"gpus": [1], "instances": {"7g.80gb": 1}})
    done = run(MIG, "apply", path, path=smi)
    assert done.returncode == 3
    assert "GPU 1 is in use: 4711, python3" in done.stderr
    assert not (smi / "told").exists()


def test_a_mode_that_waits_for_a_reset_is_said(smi: Path) -> None:
    path = layout(smi, {"gpus": [1], "enabled": False})
    done = run(MIG, "apply", path, path=smi)
    assert done.returncode == 3
    assert "GPU 1 must be reset first" in done.stderr


def spec(folder: Path, driver: str, *names: str) -> Path:
    devices = "".join(f'- name: "{name}"\n' for name in names)
    path = folder / "nvidia.yaml"
    path.write_text(f"kind: nvidia.com/gpu\ndevices:\n{devices}- hostPath: /lib/libnvidia-ml.so.{driver}\n")
    return path


CDI = "nvidia_container_toolkit/files/cdi_problems.py"


@pytest.mark.parametrize(
    ("names", "driver", "wrong"),
    [
        (("0", "1:0", "1:1", "all"), "580.95.05", ""),
        (("GPU-aaaa", "MIG-cccc", "MIG-dddd"), "580.95.05", ""),
        (("0", "1:0", "1:1"), "560.35.03", "it is for 560.35.03, and the driver is 580.95.05"),
        (("0", "1:0"), "580.95.05", "it lacks 1:1"),
        (("0", "1", "1:0", "1:1"), "580.95.05", "it has 1, which is gone"),
    ],
)
def test_a_stale_specification_is_told(smi: Path, names: tuple[str, ...], driver: str, wrong: str) -> None:
    assert run(CDI, spec(smi, driver, *names), path=smi).stdout.strip() == wrong


def bridge(folder: Path, control: int) -> None:
    """Its configuration space: an unrelated extended capability, then ACS."""
    config = bytearray(4096)
    struct.pack_into("<I", config, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)
    struct.pack_into("<IHH", config, 0x148, 0x000D | 1 << 16, 0, control)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_bytes(config)


def test_bridges_above_gpus_that_redirect_are_found(tmp_path: Path) -> None:
    buses, flat = tmp_path / "pci0000:00", tmp_path / "devices"
    flat.mkdir()
    bridge(buses / "0000:00:01.0", 0x1D)
    bridge(buses / "0000:00:01.0/0000:01:00.0", 0x01)  # source validation alone redirects nothing
    bridge(buses / "0000:00:02.0", 0x1D)
    gpu = buses / "0000:00:01.0/0000:01:00.0/0000:02:00.0"
    disk = buses / "0000:00:02.0/0000:03:00.0"
    for device, vendor, class_ in ((gpu, "0x10de", "0x030200"), (disk, "0x144d", "0x010802")):
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{class_}\n")
        (flat / device.name).symlink_to(device)
    done = run("gds/files/acs.py", flat, path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0000:00:01.0\n")


def test_who_holds_a_gpu_is_named(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    sleeper = subprocess.Popen(["sleep", "600"], stdin=(tmp_path / "nvidia0").open())
    try:
        environment = {**os.environ, "GPU_DEVICES": str(tmp_path / "nvidia")}
        program = str(roles_path() / "nvidia_driver/files/gpu_holders.py")
        for words, found in (([], f"{sleeper.pid} sleep\n"), (["sleep"], "")):
            done = subprocess.run(
                [sys.executable, program, *words], env=environment, capture_output=True, text=True, check=True
            )
            # A test beside this one may be starting processes with our open file.
            assert [line for line in done.stdout.splitlines(True) if "sleep" in line] == found.splitlines(
                True
            )
    finally:
        sleeper.kill()
        sleeper.wait()


def module(path: Path, *, manager: str, **given: object) -> dict[str, Any]:
    """The answer of the module package_versions."""
    arguments = {"manager": manager, "pins": str(path / "pins"), "_ansible_remote_tmp": str(path), **given}
    program = roles_path() / "packages/library/package_versions.py"
    done = subprocess.run(
        [sys.executable, str(program)], input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}), text=True,
        capture_output=True, check=False, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
        timeout=60,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_full_versions_on_the_red_hat_family(tmp_path: Path) -> None:
    installed = (
        "nvidia-driver-cuda 3:580.82.07-1.el9\nkernel 0:5.14.0-427.el9\nnvidia-xconfig 3:580.82.07-1.el9\n"
    )
    offered = (
        "nvidia-driver-cuda 3:580.82.07-1.el9\nnvidia-driver-cuda 3:580.95.05-1.el9\ngcc 0:11.4.1-3.el9\n"
    )
    for name, text in (("rpm", installed), ("dnf", offered)):
        (tmp_path / name).write_text(
            f"#!/bin/sh\nprintf '{text}'\n".replace("\n'", "\\n'").replace("9\n", "9\\n")
        )
        (tmp_path / name).chmod(0o755)
    found = module(
        tmp_path, manager="dnf", family=["nvidia-*"], family_version="580.95.05",
        wanted={"nvidia-driver-cuda": "580.95.05", "kernel": "5.14.0-427.el9", "gcc": None, "dkms": "3.1"},
    )  # fmt: skip
    assert found["install"] == {"nvidia-driver-cuda": "3:580.95.05-1.el9", "gcc": "0:11.4.1-3.el9"}
    assert found["missing"] == {"dkms": []}
    assert found["strays"] == {"nvidia-xconfig": "3:580.82.07-1.el9"}
    assert found["installed"]["kernel"] == "0:5.14.0-427.el9"


def test_what_is_pinned_on_the_debian_family(tmp_path: Path) -> None:
    """Globs and lists of several are no packages that were wanted."""
    for name in ("dpkg-query", "apt-cache"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert module(tmp_path, manager="apt", wanted={})["pinned"] == []
    (tmp_path / "pins").write_text(
        "# Written by bai for base; changes are overwritten.\n\nPackage: bai-tool\nPin: version 1.0\n"
        "Pin-Priority: 1001\n\nPackage: nvidia-*\nPin: version 580\n\n"
        "Package: nvidia-* bai-tool\nPin: version *\n"
    )
    assert module(tmp_path, manager="apt", wanted={})["pinned"] == ["bai-tool"]
