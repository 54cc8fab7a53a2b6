"""A running virtual machine: commands go in over a virtio port, their output comes back."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.agent import PORT, receive, send
from tests.lab.cache import LabUnavailable, tool
from tests.lab.image import kernel, root
from tests.lab.numa import Machine
from tests.lab.qmp import Monitor
from tests.waiting import soon

BOOT_SECONDS = 180.0
_SAVE_SECONDS = 120.0
CONSOLE, MONITOR = "console", "monitor"
_COUNT_DRIVES = "ls /sys/block | grep -c nvme"
_COMMAND_LINE = "console=ttyS0 quiet rdinit=/init mitigations=off nokaslr panic=-1 audit=0"


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def arguments(machine: Machine, command_line: str, folder: Path) -> list[str]:
    """How QEMU is started; what it opens for this guest alone is in `folder`."""
    image, initrd = kernel()
    return [
        tool("qemu-system-x86_64"),
        *machine.arguments(str(folder / "drive")),
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "Nehalem",
        "-nodefaults",
        "-no-reboot",
        "-display",
        "none",
        "-kernel",
        str(image),
        "-initrd",
        str(initrd),
        "-append",
        f"{_COMMAND_LINE} {command_line}",
        "-serial",
        f"file:{folder}/{CONSOLE}",
        "-drive",
        f"if=none,id=root,file={root()},format=raw,snapshot=on",
        "-device",
        "virtio-blk-pci,drive=root,bus=pcie.0",
        "-device",
        "virtio-serial-pci,bus=pcie.0",
        "-device",
        f"virtserialport,chardev=lab,name={PORT}",
        "-chardev",
        f"socket,id=lab,path={folder}/port,server=on,wait=off",
        "-qmp",
        f"unix:{folder}/{MONITOR},server=on,wait=off",
    ]


class Guest:
    """Boots on construction; raises LabUnavailable when it does not come up in time. Call `close` whatever
    happens.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        command_line: str = "",
        memory: Path | None = None,
        boot_seconds: float = BOOT_SECONDS,
    ) -> None:
        self.machine = machine
        self._folder = Path(tempfile.mkdtemp(prefix="bai-vm-", dir="/tmp"))
        self._console = self._folder / CONSOLE
        try:
            with (self._folder / "drive").open("wb") as drive:
                drive.truncate(machine.disk_mb << 20)
            saved = ["-incoming", f"exec:cat {shlex.quote(str(memory))}"] if memory else []
            self._process = subprocess.Popen(
                [*arguments(machine, command_line, self._folder), *saved],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self._folder / "qemu").open("wb"),
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - only calls prctl
            )
            self._connect(time.monotonic() + boot_seconds, greeted=memory is None)
        except BaseException:
            self.close()
            raise

    def _connect(self, deadline: float, *, greeted: bool) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        while True:
            self._still_runs()
            try:
                self._socket.connect(str(self._folder / "port"))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise LabUnavailable("QEMU did not open its port in time") from None
                time.sleep(0.05)
        self._stream = self._socket.makefile("rwb")
        self._socket.settimeout(max(1.0, deadline - time.monotonic()))
        try:
            if greeted:
                receive(self._stream)
        except (OSError, EOFError) as error:
            words = f"the guest did not come up ({error or 'no answer'}): {self._last_words()}"
            raise LabUnavailable(words) from None

    def begin(self) -> None:
        """Make a guest ready for use, once: it gets the time, random numbers of its own, a root that it can
        write to, and its drives. Raises LabUnavailable.
        """
        try:
            code, output = self._ask({"op": "begin", "time": time.time(), "timeout": 60}, os.urandom(64), 120)
        except (OSError, EOFError) as error:
            raise LabUnavailable(f"the guest does not answer ({error}): {self._last_words()}") from None
        if code:
            raise LabUnavailable(f"the guest does not begin: {output.decode('utf-8', 'replace')}")
        drives = self.machine.drives()
        with Monitor(self._folder / MONITOR) as monitor:
            for drive in drives:
                monitor("device_add", **drive)
        if not soon(lambda: self.run(["sh", "-c", _COUNT_DRIVES])[1].strip() == str(len(drives)), pause=0.2):
            raise LabUnavailable(f"the guest does not see its drives: {self._last_words()}")

    def save(self, path: Path) -> None:
        """Write the memory and devices of a guest that has not begun to a file. Raises LabUnavailable."""
        with Monitor(self._folder / MONITOR) as monitor:
            monitor("migrate-set-parameters", **{"max-bandwidth": 1 << 40, "downtime-limit": 60_000})
            monitor("migrate", uri=f"exec:cat > {shlex.quote(str(path))}")
            ended: dict[str, object] = {}

            def has_ended() -> bool:
                ended.update(monitor("query-migrate"))
                return ended.get("status") in ("completed", "failed", "cancelled")

            if not soon(has_ended, seconds=_SAVE_SECONDS) or ended["status"] != "completed":
                raise LabUnavailable(f"QEMU does not save the guest: {ended}")

    def _still_runs(self) -> None:
        if self._process.poll() is not None:
            raise LabUnavailable(f"QEMU ended with {self._process.returncode}: {self._last_words()}")

    def _last_words(self) -> str:
        told = [path for path in (self._folder / "qemu", self._console) if path.exists()]
        texts = [path.read_text(errors="replace").strip() for path in told]
        return " | ".join(text[-400:] for text in texts if text) or "it said nothing"

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 120,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> tuple[int, str]:
        """Exit code and output (stdout and stderr) of a command inside; 124 when it took longer than
        `timeout` seconds.
        """
        header = {"op": "run", "argv": list(argv), "timeout": timeout, "cwd": cwd, "env": dict(env or {})}
        code, output = self._ask(header, stdin, timeout + 60)
        return code, output.decode("utf-8", "replace")

    def put(self, source: Path, destination: str = "/", *, name: str | None = None) -> str:
        """Copy a file or folder into a folder of the guest (without dot folders and tests/data); gives its
        path there. What is compiled already goes along: compiling takes ten times as long in there.
        """
        self.put_all({name or source.name: source}, destination)
        return os.path.join(destination, name or source.name)

    def put_all(self, sources: Mapping[str, Path], destination: str) -> None:
        """The same with several, by their paths in that folder."""
        packed = io.BytesIO()
        # BusyBox knows no long names of the other format, and takes a third of the time of Python's tarfile.
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, source in sources.items():
                archive.add(source, arcname=name, filter=_worth_sending)
        code, output = self.run(["tar", "-xf", "-", "-C", destination], stdin=packed.getvalue())
        assert code == 0, output

    def put_bytes(self, content: bytes, path: str) -> None:
        """Write one executable file in the guest."""
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode = len(content), 0o755
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(entry, io.BytesIO(content))
        self._ask({"op": "put", "destination": "/"}, packed.getvalue(), 120)

    def put_sparse(self, file: Path, destination: str) -> None:
        """Copy a file into a folder of the guest; what is empty in it takes no room there."""
        words = ["--sparse", "--hole-detection=raw", "-cf", "-", "-C", str(file.parent), file.name]
        packed = subprocess.run(["tar", *words], check=True, stdout=subprocess.PIPE).stdout
        self._ask({"op": "put", "destination": destination}, packed, 120)

    def _ask(self, header: dict[str, object], body: bytes, timeout: float) -> tuple[int, bytes]:
        self._still_runs()
        self._socket.settimeout(timeout)
        send(self._stream, header, body)
        reply, output = receive(self._stream)
        return int(reply["rc"]), output

    def close(self) -> None:
        """Stop the machine and remove what it left on disk; may be called again."""
        with contextlib.suppress(AttributeError, OSError):
            self._stream.close()
        with contextlib.suppress(AttributeError, OSError):
            self._socket.close()
        with contextlib.suppress(AttributeError):
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _worth_sending(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = entry.name.rpartition("/")[2]
    hidden = name.startswith(".") and entry.isdir() and "/" in entry.name
    data = entry.name == "tests/data"
    foreign = name.endswith(".pyc") and not name.endswith(f".{sys.implementation.cache_tag}.pyc")
    return None if hidden or data or foreign else entry
