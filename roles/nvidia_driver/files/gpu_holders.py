"""Who has a file of NVIDIA's devices open, one `pid command` a line; words given are commands that may."""

import os
import sys

DEVICES = os.environ.get("GPU_DEVICES", "/dev/nvidia")


def holds(pid):
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            try:
                if os.readlink(f"{folder}/{name}").startswith(DEVICES):
                    return True
            except OSError:
                continue
    except OSError:
        pass
    return False


def command(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "?"


for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
    if holds(pid) and command(pid) not in sys.argv[1:]:
        print(f"{pid} {command(pid)}")
