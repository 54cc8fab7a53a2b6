"""What is wrong with a CDI specification, one sentence a line; nothing when it names the GPUs and MIG
instances that the driver has and the libraries of the loaded driver. Its path is on the command line."""

import os
import re
import subprocess
import sys


def ask(*words):
    said, merged = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(["nvidia-smi", *words], check=False, stdout=said, stderr=merged)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def devices(listed):
    """Name or UUID → names that the specification may have for it, of `nvidia-smi -L`."""
    found, gpu, whole = [], "", {}
    for line in listed.splitlines():
        one = re.match(r"GPU (\d+): .*\(UUID: (GPU-[^)]+)\)", line)
        part = re.match(r"\s+MIG .*Device\s+(\d+): \(UUID: (MIG-[^)]+)\)", line)
        if one:
            gpu = one.group(1)
            whole[gpu] = {gpu, one.group(2)}
        elif part and gpu:
            whole.pop(gpu, None)
            found.append({f"{gpu}:{part.group(1)}", part.group(2)})
    return found + list(whole.values())


def problems(path):
    if not os.path.exists(path):
        return [f"there is no {path}"]
    with open(path) as file:
        text = file.read()
    code, said = ask("--query-gpu=driver_version,mig.mode.current", "--format=csv,noheader")
    if code:
        return [f"nvidia-smi does not answer: {said.strip().splitlines()[0]}"]
    rows = [line.split(", ") for line in said.splitlines() if ", " in line]
    driver = rows[0][0] if rows else ""
    found = []
    libraries = set(re.findall(r"libnvidia-ml\.so\.(\d+\.[\d.]*\d)", text))
    if libraries != {driver}:
        has = ", ".join(sorted(libraries)) or "no driver at all"
        found.append(f"it is for {has}, and the driver is {driver}")
    names = set(re.findall(r"""(?m)^\s*-?\s*["']?name["']?:\s*["']?([^"'\s,]+)""", text)) - {"all"}
    there = devices(ask("-L")[1])
    missing = [sorted(each)[0] for each in there if not each & names]
    gone = names - set().union(*there) if there else names
    empty = {index for index, row in enumerate(rows) if row[1].strip() == "Enabled"}
    missing = [name for name in missing if not (name.isdigit() and int(name) in empty)]
    if missing:
        found.append("it lacks {}".format(", ".join(sorted(missing))))
    if gone:
        found.append("it has {}, which is gone".format(", ".join(sorted(gone))))
    return found


for sentence in problems(sys.argv[1]):
    print(sentence)
