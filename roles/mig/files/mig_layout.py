"""Divides the GPUs of this machine as /etc/bai/mig.json says, or tells how they differ from it.

    mig_layout.py check FILE     one difference a line; nothing when everything is as declared
    mig_layout.py apply FILE     makes it so; exit code 3 when a GPU is in use or must be reset

FILE: {"layouts": [{"gpus": [0, 1], "enabled": true, "instances": {"1g.10gb": 7}}]}; a layout without `gpus`
is for those that no other names. Instances do not outlive a boot, so that a unit applies this at every boot.
Only GPUs that differ are touched; the words are nvidia-smi's (Multi-Instance GPU user guide).
"""

import json
import re
import subprocess
import sys

ROW = re.compile(r"\|\s+(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)")
QUERY = "--query-gpu=index,mig.mode.current,mig.mode.pending"


class Refused(Exception):
    """A GPU that cannot be divided now."""


def smi(words, allowed=()):
    done = subprocess.run(
        ["nvidia-smi", *words], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode and not any(word in said for word in allowed):
        raise Refused(
            "nvidia-smi {}: {}".format(" ".join(words), said.splitlines()[0] if said else done.returncode)
        )
    return said


def found():
    """Index of a GPU → (mode, mode after a reset, its instances by profile)."""
    gpus = {}
    for line in smi([QUERY, "--format=csv,noheader"]).splitlines():
        index, mode, pending = [cell.strip() for cell in line.split(",")]
        gpus[int(index)] = (mode, pending, {})
    if any(mode == "Enabled" for mode, _, _ in gpus.values()):
        for line in smi(["mig", "-lgi"], ("Not Found", "No GPU instances")).splitlines():
            row = ROW.match(line)
            if row:
                instances = gpus[int(row.group(1))][2]
                instances[row.group(2)] = instances.get(row.group(2), 0) + 1
    return gpus


def declared(path, gpus):
    """Index of a GPU → (enabled, instances)."""
    with open(path) as file:
        layouts = json.load(file)["layouts"]
    named = {index for layout in layouts for index in layout["gpus"]}
    wanted = {}
    for layout in layouts:
        for index in layout["gpus"] or sorted(set(gpus) - named):
            wanted[index] = (layout["enabled"], layout["instances"])
    return wanted


def words(enabled, instances):
    parts = ", ".join(f"{count} x {name}" for name, count in instances.items())
    return ("MIG with %s" % (parts or "no instances")) if enabled else "whole"


def differences(gpus, wanted):
    lines = []
    for index, (enabled, instances) in sorted(wanted.items()):
        if index not in gpus:
            lines.append(f"GPU {index}: is not there")
            continue
        mode, _, has = gpus[index]
        if mode not in ("Enabled", "Disabled"):
            if enabled:
                lines.append(f"GPU {index}: cannot be divided")
        elif (mode == "Enabled") != enabled or (enabled and has != instances):
            lines.append(
                "GPU {}: {} -> {}".format(index, words(mode == "Enabled", has), words(enabled, instances))
            )
    return lines


def in_use(index):
    """Commands that compute on a GPU, of which nvidia-smi knows."""
    said = smi(["-i", str(index), "--query-compute-apps=pid,process_name", "--format=csv,noheader"], ("",))
    return [line.strip() for line in said.splitlines() if re.match(r"\s*\d+\s*,", line)]


def divide(index, enabled, instances, gpus):
    mode, _, has = gpus[index]
    number = str(index)
    users = in_use(index)
    if users:
        raise Refused("GPU {} is in use: {}".format(number, "; ".join(users)))
    if mode == "Enabled" and has:
        smi(["mig", "-i", number, "-dci"], ("Not Found", "No compute instances", "No GPU instances"))
        smi(["mig", "-i", number, "-dgi"], ("Not Found", "No GPU instances"))
    if (mode == "Enabled") != enabled:
        said = smi(["-i", number, "-mig", "1" if enabled else "0"])
        if found()[index][0] != ("Enabled" if enabled else "Disabled"):
            raise Refused(
                "GPU {} must be reset first: {}".format(number, said.splitlines()[0] if said else "pending")
            )
    if enabled and instances:
        names = [name for name, count in instances.items() for _ in range(count)]
        smi(["mig", "-i", number, "-cgi", ",".join(names), "-C"])


def main(verb, path):
    gpus = found()
    wanted = declared(path, gpus)
    lines = differences(gpus, wanted)
    if verb == "check":
        return lines
    for index, (enabled, instances) in sorted(wanted.items()):
        if differences(gpus, {index: (enabled, instances)}):
            if index not in gpus or gpus[index][0] not in ("Enabled", "Disabled"):
                raise Refused(differences(gpus, {index: (enabled, instances)})[0])
            divide(index, enabled, instances, gpus)
    return lines


if __name__ == "__main__":
    try:
        for one in main(sys.argv[1], sys.argv[2]):
            print(one)
    except Refused as error:
        print(error, file=sys.stderr)
        sys.exit(3)
