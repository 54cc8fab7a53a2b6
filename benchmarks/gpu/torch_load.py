"""What one process gets of a GPU by PyTorch: floating-point operations a second in bf16 matrix products, and
bytes a second from the host's memory.

    python3 torch_load.py [--seconds N] [--at UNIXTIME] [--copy]

Prints one line of JSON. Needs PyTorch, nothing else: it runs inside of sessions.
"""

import argparse
import json
import sys
import time

import torch

SIZE, AT_ONCE = 8192, 10
COPIED, COPY_SECONDS = 1 << 28, 1.0


def rate(seconds: float) -> float:
    """Over at least so long. On random numbers: products of zeros take less power, and so less time."""
    left, right = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.matmul(left, right)
    torch.cuda.synchronize()
    products, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        for _ in range(AT_ONCE):
            torch.matmul(left, right)
        torch.cuda.synchronize()
        products += AT_ONCE
    return products * 2 * SIZE**3 / (time.monotonic() - begin)


def copy_rate() -> float:
    """Bytes a second from pinned memory of the host to the GPU."""
    host = torch.empty(COPIED, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    target.copy_(host)
    torch.cuda.synchronize()
    copies, begin = 0, time.monotonic()
    while time.monotonic() - begin < COPY_SECONDS:
        target.copy_(host)
        torch.cuda.synchronize()
        copies += 1
    return copies * COPIED / (time.monotonic() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description="What one process gets of a GPU by PyTorch.")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to multiply")
    parser.add_argument("--at", type=float, default=0.0, help="begin to multiply at this time")
    parser.add_argument("--copy", action="store_true", help="copy from the host's memory at last")
    chosen = parser.parse_args()
    device = torch.cuda.get_device_properties(0)
    torch.zeros(1, device="cuda")
    time.sleep(max(0.0, chosen.at - time.time()))
    found = {
        "name": device.name,
        "multiprocessors": device.multi_processor_count,
        "torch": torch.__version__,
        "late": max(0.0, time.time() - chosen.at) if chosen.at else 0.0,
        "rate": rate(chosen.seconds),
    }
    if chosen.copy:
        found["copy"] = copy_rate()
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
