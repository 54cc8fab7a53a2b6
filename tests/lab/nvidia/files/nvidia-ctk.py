#!/usr/bin/python3
"""What roles ask of nvidia-ctk: the engines' configuration, the toolkit's own, and CDI specifications of the
GPUs and MIG instances that nvidia-smi knows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

OWN = Path("/etc/nvidia-container-runtime/config.toml")
words = sys.argv[1:]
options = dict(word.lstrip("-").partition("=")[::2] for word in words if word.startswith("--"))


def lines(*argv):
    done = subprocess.run(["nvidia-smi", *argv], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 6):
        sys.exit("nvidia-ctk: failed to generate CDI spec: failed to initialize NVML: " + done.stdout)
    return done.stdout.splitlines() if done.returncode == 0 else []


def devices():
    for line in lines("--query-gpu=index,mig.mode.current", "--format=csv,noheader"):
        index, mode = line.split(", ")
        if mode == "Disabled":
            yield index, index
        else:
            found = [row for row in lines("mig", "-i", index, "-lgi") if re.match(r"\|\s+\d+\s+MIG", row)]
            yield from ((f"{index}:{n}", index) for n in range(len(found)))


def generate():
    [driver] = set(lines("--query-gpu=driver_version", "--format=csv,noheader"))
    text = "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
    for name, index in [*devices(), ("all", "ctl")]:
        text += f'  - name: "{name}"\n    containerEdits:\n      deviceNodes:\n'
        text += f"        - path: /dev/nvidia{index}\n"
    library = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{driver}"
    text += f"containerEdits:\n  mounts:\n    - hostPath: {library}\n      containerPath: {library}\n"
    target = Path(options["output"])
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whole at once: a unit that refreshes it may be at it beside a role.
    draft = target.with_name(f".{target.name}-{os.getpid()}")
    draft.write_text(text)
    draft.replace(target)


def configure():
    if options["runtime"] != "docker":
        folder = Path("/etc/containerd/conf.d")
        folder.mkdir(parents=True, exist_ok=True)
        text = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n'
        (folder / "99-nvidia.toml").write_text(text)
        return
    path = Path(options.get("config") or "/etc/docker/daemon.json")
    content = json.loads(path.read_text() or "{}") if path.exists() else {}
    content.setdefault("runtimes", {})["nvidia"] = {"args": [], "path": "nvidia-container-runtime"}
    if "set-as-default" in options:
        content["default-runtime"] = "nvidia"
    if "cdi.enabled" in options:
        content.setdefault("features", {})["cdi"] = True
    if "dry-run" in options:
        print(json.dumps(content, indent=4))
    else:
        path.write_text(json.dumps(content, indent=4))


def settings():
    text = OWN.read_text() if OWN.exists() else '[nvidia-container-runtime]\nmode = "auto"\n'
    pairs = (word.partition("=")[2].partition("=") for word in words if word.startswith("--set="))
    for name, _, value in pairs:
        key = name.rpartition(".")[2]
        text = re.sub(rf"(?m)^{key} = .*$", f'{key} = "{value}"', text)
    if "in-place" in options:
        OWN.write_text(text)
    else:
        print(text, end="")


if words[:2] == ["cdi", "generate"]:
    generate()
elif words[:2] == ["runtime", "configure"]:
    configure()
elif words[:1] == ["config"]:
    settings()
elif words[:2] == ["system", "create-dev-char-symlinks"]:
    Path("/dev/char").mkdir(exist_ok=True)
    Path("/dev/char/195:255").symlink_to("../nvidiactl")
elif "--version" in words:
    print("NVIDIA Container Toolkit CLI version", Path("/usr/lib/fake-nvidia/toolkit").read_text().strip())
