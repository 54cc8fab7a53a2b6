"""A secret reaches the kernel's environment and nothing else; the records are private."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from providers.process.linux import procfs
from providers.process.provider import ProcessProvider
from tests.harness.processes import having
from tests.providers.process.kernels import ended, output, script, seen, spec, state
from tests.waiting import until

SECRET = "s3cr3t-Zx9-value"


def _texts(root: Path) -> Iterator[tuple[Path, bytes]]:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            # A supervisor may have renamed the new state that was listed a moment ago.
            with contextlib.suppress(FileNotFoundError):
                yield path, path.read_bytes()


def _holders(root: Path, text: str) -> list[Path]:
    return [path for path, found in _texts(root) if text.encode() in found]


def test_a_secret_is_in_no_file_and_no_command_line(provider: ProcessProvider) -> None:
    one = script("sleep 300", secret_env={"TOKEN": SECRET}, env={"PLAIN": "visible"})
    provider.create(one)
    provider.update(one.id, one)
    keeper = state(provider, one.id)["supervisor"]
    # Who is just becoming a program has none.
    environment = until(lambda: procfs.environment(seen(provider, one.id).pid or 0), "it has an environment")
    token = f"TOKEN={SECRET}".encode()
    assert any(entry.endswith(token) for entry in environment)
    assert f"TOKEN={SECRET}".encode() not in procfs.environment(keeper)
    assert having(SECRET) == {}
    assert _holders(provider.root.path, SECRET) == []
    assert _holders(provider.root.path, "visible")
    provider.stop(one.id, grace=0)
    assert _holders(provider.root.path, SECRET) == []
    assert SECRET not in repr(one) and SECRET not in repr(provider.observe())


def test_the_kernel_gets_its_secret(provider: ProcessProvider) -> None:
    provider.create(script('[ "$TOKEN" = "$0" ] || [ ${#TOKEN} -eq 16 ]', secret_env={"TOKEN": SECRET}))
    assert ended(provider, spec().id).exit_code == 0


def test_records_are_readable_to_their_owner_only(provider: ProcessProvider) -> None:
    provider.create(script("echo hello; sleep 300"))
    provider.root.path.chmod(0o755)
    provider.create(spec(name="s-two-g1"))
    assert stat.S_IMODE(provider.root.path.stat().st_mode) == 0o700
    for path in provider.root.path.rglob("*"):
        public = provider.root.path / "etc" in path.parents
        if "scratch" not in path.parts and not path.is_symlink() and not public:
            # A supervisor may have renamed the new state that was listed a moment ago.
            with contextlib.suppress(FileNotFoundError):
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_callers_open_files_stay_with_the_caller(provider: ProcessProvider) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        provider.create(script("ls -l /proc/self/fd"))
        ended(provider, spec().id)
        inode = f"pipe:[{os.fstat(writing).st_ino}]"
        assert inode not in output(provider, spec().id).decode()
    finally:
        os.close(reading)
        os.close(writing)
