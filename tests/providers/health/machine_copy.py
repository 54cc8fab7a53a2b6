"""Copies of a machine's files below a folder, for the collector's `root`."""

from __future__ import annotations

from pathlib import Path

MOUNTED = """\
30 1 0:25 / /data rw - nfs4 server:/data rw
31 1 8:1 / / rw - ext4 /dev/sda1 rw"""
KMSG = """\
6,1203,2812345,-;nvidia: loading out-of-tree module taints kernel.
4,1210,2912345,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build
"""


class MachineCopy:
    """Builder: a healthy machine with two GPUs, to be made worse."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/sys/kernel/osrelease", "6.1.0-21-amd64")
        self.write("proc/uptime", "7200.00 14000.00")
        self.write("sys/module/nvidia/version", "550.90.07")
        self.write("modinfo/nvidia", "550.90.07")
        self.write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.90.07", "")
        library = self.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
        library.symlink_to("libnvidia-ml.so.550.90.07")
        self.write("lib/modules/6.1.0-21-amd64/modules.dep", "updates/dkms/nvidia.ko.xz: kernel/drm.ko")
        self.write("var/lib/dpkg/status", _package("nvidia-fabricmanager-550", "550.90.07-1"))
        self.write("units/docker", "active")
        self.write("units/nvidia-fabricmanager", "active")
        self.write("dev/kmsg", KMSG)
        self.write("dev/nvidia0", "")
        self.write("dev/nvidia1", "")
        self.write("synchronised", "yes")
        self.write("etc/fstab", "server:/data /data nfs4 defaults 0 0\n# server:/x /x nfs defaults 0 0")
        self.write("proc/mountinfo", MOUNTED)
        self.pci("0000:41:00.0", 0x030200)
        self.pci("0000:61:00.0", 0x030200)
        self.pci("0000:c1:00.0", 0x068000)
        self.write("sys/devices/system/edac/mc/mc0/ce_count", "3")
        self.write("sys/devices/system/edac/mc/mc0/ue_count", "0")
        port = "sys/class/infiniband/mlx5_0/ports/1"
        self.write(f"{port}/state", "4: ACTIVE")
        self.write(f"{port}/phys_state", "5: LinkUp")
        self.write(f"{port}/rate", "400 Gb/sec (4X NDR)")
        self.write(f"{port}/link_layer", "InfiniBand")
        self.cdi("0", "1")
        self.write("now", "9999999999")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return file

    def log(self, *messages: str) -> None:
        """Lines of the kernel, a second apart."""
        with (self.root / "dev/kmsg").open("a") as file:
            for at, message in enumerate(messages):
                file.write(f"3,{2000 + at},{3000 + at}000000,-;{message}\n")

    def pci(self, address: str, kind: int, *, driver: str = "nvidia") -> None:
        folder = f"sys/bus/pci/devices/{address}"
        self.write(f"{folder}/vendor", "0x10de")
        self.write(f"{folder}/class", f"{kind:#08x}")
        (self.root / folder / "config").write_bytes(b"\xde\x10")
        if driver:
            there = self.root / "sys/bus/pci/drivers" / driver
            there.mkdir(parents=True, exist_ok=True)
            (self.root / folder / "driver").symlink_to(there)

    def cdi(self, *names: str, paths: tuple[str, ...] = ()) -> None:
        """As `nvidia-ctk cdi generate` writes it."""
        devices = "".join(
            f'    - name: "{name}"\n      containerEdits:\n        deviceNodes:\n'
            f"            - path: /dev/nvidia{name.partition(':')[0]}\n"
            for name in names
        )
        mounts = "".join(f"        - hostPath: {path}\n          containerPath: {path}\n" for path in paths)
        text = f"---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n{devices}"
        self.write("etc/cdi/nvidia.yaml", f"{text}containerEdits:\n    mounts:\n{mounts}")


def _package(name: str, version: str) -> str:
    return f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nDescription: x\n"
