"""What one process can have of a GPU, by the CUDA driver API alone: run as a process of its own, under the
environment of a part of that GPU, and bounded in time and in memory.

    python3 -c SOURCE '{"seconds": 30, "within": BYTES, "beyond": BYTES}'

Prints a line of JSON. Without `within` it only looks, which takes nothing; with `context` it has one, and
with `linger` keeps it until its standard input ends. Functions and numbers: NVIDIA's "CUDA Driver API". The
primary context is used, as CUDA's runtime does, whose functions for it are the same in all versions.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from typing import Any, Callable

LIBRARY = "libcuda.so.1"
MULTIPROCESSOR_COUNT = 16
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"""
LOOKED_UP_AS_OF = 12000
"""Version of CUDA whose cuMemAlloc is asked for."""
Allocate = Callable[[Any, Any], int]


class CallFailed(Exception):
    """A function of the driver that gave an error; the text names both."""


class Device:
    """The first device that this process may see."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL(LIBRARY)
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise CallFailed(f"{name}: {self._error_name(code)}")

    def _error_name(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self.cuda.cuGetErrorName(code, ctypes.byref(text)) or text.value is None:
            return f"error {code}"
        return f"error {code}, {text.value.decode(errors='replace')}"

    def look(self) -> dict[str, Any]:
        """What the driver tells this process; no context is made for it."""
        version, count, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGetAttribute", ctypes.byref(count), MULTIPROCESSOR_COUNT, self.device)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), self.device)
        return {"cuda": version.value, "multiprocessors": count.value, "total": total.value}

    def have_context(self) -> None:
        """What allocates is a client of whatever divides the GPU."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def take(self, within: int, beyond: int) -> dict[str, Any]:
        """What comes of allocating `within` bytes, and then as many more as make it `beyond`, by each way to
        the function: 0 or an error of the driver. All of it is given back."""
        self.have_context()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        ways = {"cuMemAlloc_v2": self.cuda.cuMemAlloc_v2, "cuGetProcAddress": self._looked_up()}
        found = {name: self._allocate(way, within, beyond) for name, way in ways.items() if way is not None}
        return {"shown": total.value, "ways": found}

    def _looked_up(self) -> Allocate | None:
        """The function as CUDA's runtime finds it since CUDA 11.3; None in older drivers."""
        pointer, status = ctypes.c_void_p(), ctypes.c_int()
        wanted = (b"cuMemAlloc", ctypes.byref(pointer), LOOKED_UP_AS_OF, ctypes.c_uint64(0))
        if hasattr(self.cuda, "cuGetProcAddress_v2"):
            self.call("cuGetProcAddress_v2", *wanted, ctypes.byref(status))
        elif hasattr(self.cuda, "cuGetProcAddress"):
            self.call("cuGetProcAddress", *wanted)
        if not pointer.value:
            return None
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
        return kind(pointer.value)

    def _allocate(self, allocate: Allocate, within: int, beyond: int) -> dict[str, int]:
        first, second = ctypes.c_uint64(), ctypes.c_uint64()
        found = {"within": allocate(ctypes.byref(first), ctypes.c_size_t(within))}
        rest = beyond - (0 if found["within"] else within)
        found["beyond"] = allocate(ctypes.byref(second), ctypes.c_size_t(rest))
        for pointer, code in ((first, found["within"]), (second, found["beyond"])):
            if not code:
                self.call("cuMemFree_v2", pointer)
        return found


def main() -> None:
    order = json.loads(sys.argv[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(order["seconds"])  # whoever started this may be gone by then
    try:
        device = Device()
        found = device.look()
        if order.get("within"):
            found.update(device.take(order["within"], order["beyond"]))
        elif order.get("context"):
            device.have_context()
    except (CallFailed, AttributeError, OSError) as error:
        found = {"failed": str(error)}
    print(json.dumps(found), flush=True)
    if order.get("linger"):
        sys.stdin.read()


if __name__ == "__main__":
    main()
