"""PCI bridges above GPUs and RDMA cards that redirect requests between devices, one address a line.

Access Control Services is an extended capability (PCI Express base specification, 7.7.11): its control
register has request redirect (bit 2), completion redirect (bit 3) and upstream forwarding (bit 4). Reading
them needs root. A word on the command line: the folder of the PCI devices.
"""

import os
import struct
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else "/sys/bus/pci/devices"
ACS, REDIRECTS = 0x0D, 0b11100


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def redirects(folder):
    try:
        with open(os.path.join(folder, "config"), "rb") as file:
            config = file.read(4096)
    except OSError:
        return False
    at = 0x100
    while at and at + 8 <= len(config):
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == ACS:
            return bool(struct.unpack_from("<H", config, at + 6)[0] & REDIRECTS)
        following = header >> 20
        at = following if following > at else 0
    return False


def ends():
    for name in sorted(os.listdir(ROOT)):
        folder = os.path.join(ROOT, name)
        gpu = read(folder + "/vendor") == "0x10de" and read(folder + "/class").startswith("0x03")
        if gpu or os.path.isdir(folder + "/infiniband"):
            yield os.path.realpath(folder)


found = set()
for end in ends():
    above = os.path.dirname(end)
    while os.path.basename(above).count(":") == 2:
        if redirects(above):
            found.add(os.path.basename(above))
        above = os.path.dirname(above)
for bridge in sorted(found):
    print(bridge)
