"""The interpreter for what enters kernels: a sealed copy in memory.

A session can make what enters it run this copy once more, by a first line `#!/proc/self/exe`, and then has a
handle on it. On a copy that nobody can write that is worth nothing (CVE-2019-5736).
"""

from __future__ import annotations

import fcntl
import os
import sys

from schemas.problems.errors.provider import ProviderError

_MFD_EXEC = 0x10
"""Asked for since Linux 6.3 where `vm.memfd_noexec` is 1; older ones do not know it."""
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def sealed_copy(program: str) -> int:
    """A descriptor of the copy, for the caller to close. Raises ProviderError."""
    try:
        copy = _memory()
        try:
            with open(program, "rb") as stream:
                left = os.fstat(stream.fileno()).st_size
                while left > 0 and (sent := os.sendfile(copy, stream.fileno(), None, left)):
                    left -= sent
            fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
        except OSError:
            os.close(copy)
            raise
    except OSError as error:
        why = f"cannot keep a copy of {program} in memory: {error.strerror}"
        raise ProviderError(provider="process", why=why) from error
    return copy


def _memory() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("bai", flags | _MFD_EXEC)
    except OSError:
        return os.memfd_create("bai", flags)


def environment() -> dict[str, str]:
    """Where the copy finds the library of its interpreter, which looks beside itself for it."""
    name = f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0"
    folder = os.path.join(sys.base_prefix, "lib")
    return {"LD_LIBRARY_PATH": folder} if os.path.exists(os.path.join(folder, name)) else {}
