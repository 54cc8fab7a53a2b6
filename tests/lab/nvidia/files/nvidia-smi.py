#!/usr/bin/python3
"""What roles ask nvidia-smi, answered from /run/fake-nvidia: GPUs whole or in MIG instances, which do not
outlive a boot. Like the real one it fails when the loaded module is not of its library's version."""

import json
import os
import re
import sys
from pathlib import Path

STATE = Path("/run/fake-nvidia/gpus.json")
BUSY = Path("/run/fake-nvidia/busy")
SLICES = {"1g": 1, "2g": 2, "3g": 4, "4g": 4, "7g": 8}
MODES = {"0": "Default", "3": "Exclusive_Process"}


def ends(code, text):
    print(text)
    sys.exit(code)


def version():
    library = Path("/usr/lib/fake-nvidia/library").read_text().strip()
    try:
        said = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        ends(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    loaded = re.search(r"(\d+\.\d+(?:\.\d+)?)  ", said).group(1)
    if loaded != library:
        ends(
            18, f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {library}"
        )
    return loaded


def gpus():
    if STATE.exists():
        return json.loads(STATE.read_text())
    count = len([name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)])
    blank = {"mig": False, "pending": False, "mode": "Default"}
    return [{"index": n, "uuid": f"GPU-{n:08d}-0000", "instances": [], **blank} for n in range(count)]


def save(found):
    STATE.write_text(json.dumps(found))


def value(gpu, field, driver):
    words = {True: "Enabled", False: "Disabled"}
    kept = Path("/run/fake-nvidia/persistenced").exists()
    fabric = Path("/run/fake-nvidia/fabric").exists()
    return {
        "index": str(gpu["index"]),
        "uuid": gpu["uuid"],
        "name": "NVIDIA H100 80GB HBM3",
        "driver_version": driver,
        "persistence_mode": words[kept],
        "pci.bus_id": f"00000000:1{gpu['index']}:00.0",
        "mig.mode.current": words[gpu["mig"]],
        "mig.mode.pending": words[gpu["pending"]],
        "compute_mode": gpu["mode"],
        "compute_cap": "9.0",
        "fabric.state": "Completed" if fabric else "Not Started",
        "fabric.status": "Success" if fabric else "N/A",
    }[field]


def mig(words, found):
    only = [int(words[words.index("-i") + 1])] if "-i" in words else [gpu["index"] for gpu in found]
    chosen = [gpu for gpu in found if gpu["index"] in only]
    if "-cgi" in words:
        return create(chosen, words[words.index("-cgi") + 1].split(","), found)
    instances = [(gpu, one) for gpu in chosen for one in gpu["instances"]]
    if not instances:
        ends(6, "No GPU instances found: Not Found")
    if "-lgi" in words:
        print("| GPU   Name             Profile  Instance   Placement  |\n|=====|")
        for gpu, one in instances:
            place = f"{one['start']}:{one['size']}"
            print(f"|   {gpu['index']}  MIG {one['name']:<14} {19:>5} {one['id']:>8}          {place} |")
    if "-dgi" in words:
        if BUSY.exists():
            ends(19, "Unable to destroy GPU instance ID 1 from GPU 0: In use by another client")
        for gpu in chosen:
            gpu["instances"] = []
        save(found)


def create(chosen, names, found):
    for gpu in chosen:
        if not gpu["mig"]:
            ends(3, "Unable to create a GPU instance: Not Supported (MIG mode is disabled)")
        for name in names:
            size = SLICES[name.split(".", maxsplit=1)[0]]
            taken = {s for one in gpu["instances"] for s in range(one["start"], one["start"] + one["size"])}
            free = [s for s in range(0, 9 - size, size) if not taken & set(range(s, s + size))]
            if not free:
                ends(19, f"Unable to create a GPU instance with profile {name}: Insufficient Resources")
            number = len(gpu["instances"]) + 1
            gpu["instances"].append({"name": name, "id": number, "start": free[0], "size": size})
    save(found)


def set_mig(chosen, wanted, found):
    for gpu in chosen:
        gpu["pending"] = wanted
        if BUSY.exists():
            print(f"Warning: MIG mode is in pending state for GPU {gpu['index']}: In use by another client")
        else:
            gpu["mig"] = wanted
            gpu["instances"] = []
    save(found)


def main(words):
    driver = version()
    found = gpus()
    if words[:1] == ["mig"]:
        return mig(words[1:], found)
    only = int(words[words.index("-i") + 1]) if "-i" in words else None
    chosen = [gpu for gpu in found if only in (None, gpu["index"])]
    if "-mig" in words:
        return set_mig(chosen, words[words.index("-mig") + 1] == "1", found)
    if "-c" in words:
        for gpu in chosen:
            gpu["mode"] = MODES[words[words.index("-c") + 1]]
        return save(found)
    if "-L" in words:
        for gpu in chosen:
            print(f"GPU {gpu['index']}: NVIDIA H100 80GB HBM3 (UUID: {gpu['uuid']})")
            for number, one in enumerate(gpu["instances"]):
                uuid = f"MIG-{gpu['index']}-{one['id']}"
                print(f"  MIG {one['name']:<12} Device {number:>2}: (UUID: {uuid})")
    for word in words:
        if word.startswith("--query-gpu="):
            for gpu in chosen:
                print(", ".join(value(gpu, field, driver) for field in word.partition("=")[2].split(",")))


main(sys.argv[1:])
