"""What one process gets of a GPU, by the CUDA driver alone: how much memory, how many multiply-adds
a second, how many bytes a second from the host's memory.

    python3 load.py [--seconds N] [--at UNIXTIME] [--memory] [--copy]

Prints one line of JSON. Needs Python 3.8 and libcuda.so.1, nothing else: it runs inside of sessions.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time

PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry burn(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<8>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd2, %rd2, %rd3;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F000000;
    mov.f32 %f3, %f1;
    mov.f32 %f4, %f1;
    mov.f32 %f5, %f1;
    mov.u32 %r3, 0;
AGAIN:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    fma.rn.f32 %f3, %f3, %f2, %f2;
    fma.rn.f32 %f4, %f4, %f2, %f2;
    fma.rn.f32 %f5, %f5, %f2, %f2;
    fma.rn.f32 %f1, %f1, %f2, %f2;
    fma.rn.f32 %f3, %f3, %f2, %f2;
    fma.rn.f32 %f4, %f4, %f2, %f2;
    fma.rn.f32 %f5, %f5, %f2, %f2;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra AGAIN;
    add.f32 %f1, %f1, %f3;
    add.f32 %f4, %f4, %f5;
    add.f32 %f1, %f1, %f4;
    st.global.f32 [%rd2], %f1;
    ret;
}
\0"""
"""Every thread multiplies and adds on its own registers: only the multiprocessors it may use count."""

THREADS, BLOCKS, ROUNDS, PER_ROUND = 256, 8192, 2000, 8
OUT_OF_MEMORY = 2
CHUNKS = (1 << 30, 1 << 26, 1 << 22)
MULTIPROCESSORS = 16
COPIED, COPY_SECONDS = 1 << 28, 1.0


class Failed(Exception):
    """A call of the driver that failed."""


class Gpu:
    """The first device that this process may see."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise Failed(f"{name}: error {code}")

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    def multiprocessors(self) -> int:
        """As many as this process may use: MPS tells its clients a smaller number."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), MULTIPROCESSORS, self.device)
        return value.value

    def memory(self) -> tuple:
        """Free and total bytes, as the driver tells this process."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def most_memory(self) -> int:
        """Bytes that can be allocated before the driver refuses; all of it is given back."""
        taken, got = [], 0
        for chunk in CHUNKS:
            while True:
                pointer = ctypes.c_uint64()
                code = self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(chunk))
                if code == OUT_OF_MEMORY:
                    break
                if code:
                    raise Failed(f"cuMemAlloc: error {code}")
                taken.append(pointer)
                got += chunk
        for pointer in taken:
            self.call("cuMemFree_v2", pointer)
        return got

    def copy_rate(self) -> float:
        """Bytes a second from pinned memory of the host to the GPU."""
        host, target = ctypes.c_void_p(), ctypes.c_uint64()
        size = ctypes.c_size_t(COPIED)
        self.call("cuMemHostAlloc", ctypes.byref(host), size, 0)
        self.call("cuMemAlloc_v2", ctypes.byref(target), size)
        self.call("cuMemcpyHtoD_v2", target, host, size)
        copies, begin = 0, time.monotonic()
        while time.monotonic() - begin < COPY_SECONDS:
            self.call("cuMemcpyHtoD_v2", target, host, size)
            copies += 1
        took = time.monotonic() - begin
        self.call("cuMemFree_v2", target)
        self.call("cuMemFreeHost", host)
        return copies * COPIED / took

    def rate(self, seconds: float) -> float:
        """Multiply-adds a second, over at least so long."""
        module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"burn")
        self.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(THREADS * 4))
        rounds = ctypes.c_uint(ROUNDS)
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(rounds))
        launch = [function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, pointers, None]
        self.call("cuLaunchKernel", *launch)
        self.call("cuCtxSynchronize")
        launches, begin = 0, time.monotonic()
        while time.monotonic() - begin < seconds:
            self.call("cuLaunchKernel", *launch)
            self.call("cuCtxSynchronize")
            launches += 1
        took = time.monotonic() - begin
        return launches * BLOCKS * THREADS * ROUNDS * PER_ROUND / took


def main() -> int:
    parser = argparse.ArgumentParser(description="What one process gets of a GPU.")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to multiply")
    parser.add_argument("--at", type=float, default=0.0, help="begin to multiply at this time")
    parser.add_argument("--memory", action="store_true", help="allocate as much as it may first")
    parser.add_argument("--copy", action="store_true", help="copy from the host's memory at last")
    chosen = parser.parse_args()
    try:
        gpu = Gpu()
        found = {"name": gpu.name(), "multiprocessors": gpu.multiprocessors(), "total": gpu.memory()[1]}
        if chosen.memory:
            found["memory"] = gpu.most_memory()
        time.sleep(max(0.0, chosen.at - time.time()))
        found["late"] = max(0.0, time.time() - chosen.at) if chosen.at else 0.0
        found["rate"] = gpu.rate(chosen.seconds)
        if chosen.copy:
            found["copy"] = gpu.copy_rate()
    except (Failed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
