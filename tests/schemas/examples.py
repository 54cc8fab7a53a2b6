"""Documents that use every field, by kind."""

from __future__ import annotations

from typing import Any

from tests.schemas.profile_example import PROFILE

HARDWARE: dict[str, Any] = {
    "architecture": "x86_64",
    "hostname": "gpu-1",
    "numaNodes": [
        {"id": 0, "cpus": "0-3", "memory": 8 << 30, "kind": "dram", "distances": {"0": 10, "1": 21}},
        {"id": 1, "cpus": "4-7", "memory": "8GiB"},
    ],
    "siblings": ["0,4"],
    "offlineCpus": "8",
    "isolatedCpus": 3,
    "gpus": [
        {"id": "GPU-0", "index": 0, "model": "H100", "pci": "0000:01:00.0", "numaNode": 0, "memory": 80 << 30}
    ],
    "nics": [{"id": "mlx5_0", "numaNode": 0, "linkLayer": "infiniband", "speedMbps": 400_000}],
    "disks": [{"id": "nvme0", "size": 10**12}],
    "links": [{"a": "GPU-0", "b": "mlx5_0", "kind": "PIX", "count": 1}],
    "nvSwitches": 0,
    "software": {"kernel": "6.8", "nvidiaDriver": "550.54"},
    "unknown": ["NUMA distances"],
}
MACHINE: dict[str, Any] = {
    "cluster": "lab",
    "ssh": {
        "user": "ops",
        "port": 22,
        "keyFrom": "nodes/id",
        "jump": "ops@gate:2222,inner",
        "connectTimeout": "10s",
        "hostKeys": "strict",
        "knownHostsFrom": "nodes/hosts",
        "keepAlive": "30s",
        "sudo": True,
    },
    "resourceGroup": "a100",
    "profile": "h100",
    "labels": {"rack": "r1", "example.org/row": "7"},
    "state": "cordoned",
    "drain": {"force": True},
    "reserved": {"cpus": "0-1", "memory": "1GiB"},
    "hardware": HARDWARE,
}
SESSION: dict[str, Any] = {
    "from": {"template": "trainer", "parameters": {"lr": 0.1, "optimizer": "adam"}},
    "type": "batch",
    "resourceGroup": "a100",
    "owner": "jo@example.org",
    "image": "registry.example/pytorch:2.4",
    "resources": {
        "cpu": 16,
        "memory": "128GiB",
        "shm": "16GiB",
        "scratch": "20GiB",
        "pids": 512,
        "cuda.device": 2,
        "rocm.device": 0,
    },
    "cluster": {
        "mode": "multi-node",
        "roles": {"main": 1, "sub": 3},
        "perRole": {
            "sub": {"resources": {"cpu": "500m", "cuda.shares": 0.5}, "command": ["a"], "env": {"A": "b"}}
        },
        "endsWith": "main",
    },
    "numa": "interleaving",
    "threads": {"bind": "close"},
    "placement": {
        "nodes": ["gpu-1"],
        "gpuModel": ["H100"],
        "nodeSelector": {"rack": "r1"},
        "requireNvlink": True,
        "sameLeaf": False,
    },
    "command": ["python", "train.py"],
    "tty": True,
    "workdir": "/work",
    "env": {"LR": "0.0003"},
    "secrets": [{"env": "TOKEN", "from": "env/TOKEN"}, {"env": "KEY", "from": "files/key"}],
    "mounts": [{"volume": "data", "path": "/data", "subPath": "runs", "readOnly": True}],
    "ports": [{"name": "http", "port": 8888, "protocol": "http", "publish": True}],
    "apps": {"http": {"access": "project"}},
    "dependsOn": ["Session/vision/prep"],
    "priority": 20,
    "startsAt": "2026-12-01T00:00:00Z",
    "hold": True,
    "timeout": "12h",
    "idle": {"after": "1h", "metric": "gpu-utilization", "below": "5%", "grace": "10m"},
    "nodeLoss": {"after": "5m", "then": "reschedule"},
    "restart": {"policy": "on-failure", "max": 3},
    "stop": {"signal": "SIGINT", "grace": "30s"},
    "container": {
        "user": "1000:1000",
        "readOnlyRoot": True,
        "capabilities": ["SYS_PTRACE"],
        "ulimits": {"nofile": 65536, "memlock": "unlimited"},
    },
    "preemptible": True,
    "movable": True,
    "checkpoint": {"signal": "SIGUSR1", "grace": "120s"},
}
SPECS: dict[str, dict[str, Any]] = {
    "Cluster": {
        "provider": "process",
        "process": {"any": {"thing": [1, None]}},
        "kubernetes": {
            "context": "lab-admin",
            "namespace": "team-{project}",
            "clusterDomain": "cluster.test",
            "imagePullSecrets": ["registry"],
            "runtimeClass": "nvidia",
            "priorityClass": "research",
            "hostPathRoots": ["/srv/bai", "/mnt/fast"],
        },
        "stateRoot": "/var/lib/x",
        "state": "postgresql://bai@db.example:5432/bai?sslmode=verify-full",
        "ssh": {"user": "root"},
        "networks": {"data": {"cidr": "10.0.0.0/16", "interfaces": ["eth0"]}, "fabric": {"rdma": True}},
        "profile": "h100",
        "provisioning": {
            "maxUnavailable": "25%",
            "canary": False,
            "reboot": "never",
            "drainGrace": "5m",
            "parallel": 20,
        },
        "sessionUids": {"first": 200000, "count": 1000},
        "accounting": {"sampleInterval": "1m"},
        "defaults": {"resourceGroup": "a100", "image": "x", "env": {"A": "b"}},
    },
    "Node": {**MACHINE, "address": "10.0.0.1", "dataAddress": "10.1.0.1"},
    "NodePool": {
        **MACHINE,
        "namePattern": "gpu-[001-128]",
        "addressPattern": "10.0.0.[1-128]",
        "dataAddressPattern": "10.1.0.[1-128]",
        "exclude": ["gpu-007"],
    },
    "NodeProfile": PROFILE,
    "ResourceGroup": {
        "cluster": "lab",
        "nodeSelector": {"rack": "r1"},
        "queue": "drf",
        "queueOptions": {
            "maxSkips": 3,
            "pendingTimeout": "1d",
            "backfill": True,
            "weights": {"project/vision": 2},
            "hierarchy": True,
            "halfLife": "2d",
            "plugin": {"x": 1.5},
        },
        "selection": "dispersed",
        "numa": "interleaving",
        "fractional": {
            "sharesPerDevice": 2,
            "quantum": 0.05,
            "spread": "even",
            "enforcement": "mps",
            "minCpu": 1,
        },
        "packing": "whole-queue",
        "packingTimeLimit": "30s",
        "gpuDirectStorage": True,
        "allowRoot": True,
        "allowCapabilities": ["SYS_ADMIN"],
        "allowedTypes": ["batch"],
        "allowedProjects": ["vision"],
        "scratch": {"default": "20GiB", "max": "100GiB"},
        "preemption": {"mode": "priority", "grace": "1m", "minimumRunTime": "5m"},
        "headroom": {"percent": "25%", "total": {"cuda.device": 4}},
        "nodeLoss": {"after": "1m", "then": "wait"},
        "reservations": [
            {
                "name": "r",
                "nodes": ["gpu-1"],
                "projects": ["vision"],
                "startsAt": "2026-12-01T00:00:00Z",
                "endsAt": "2026-12-02T00:00:00+01:00",
            }
        ],
    },
    "Domain": {"description": "us"},
    "Project": {"domain": "research", "description": "eyes", "uid": 4242},
    "User": {"email": "jo@example.org", "fullName": "Jo", "projects": ["vision"], "active": True},
    "Quota": {
        "subject": {"project": "vision"},
        "resourceGroup": "a100",
        "total": {"cpu": 0, "memory": "1TiB", "cuda.device": 8, "cuda.mig.1g.10gb": 7},
        "perSession": {"cuda.device": 4},
        "unspecified": "zero",
        "concurrentSessions": 10,
        "pendingSessions": 0,
        "containersPerSession": 4,
        "maxLifetime": "1d",
        "idleTimeout": "1h",
        "maxPriority": 50,
        "cohort": "all",
        "borrowing": {"cuda.device": 2},
    },
    "StorageHost": {
        "cluster": "lab",
        "type": "nfs",
        "root": "/srv/data",
        "node": "n1",
        "fileSystems": ["nfs4"],
    },
    "Volume": {
        "host": "disk",
        "path": "a/b",
        "owner": "jo",
        "uid": 1000,
        "gid": 1000,
        "mode": "2770",
        "permissions": [{"user": "al", "access": "read-write"}, {"project": "vision"}],
        "quota": "1TB",
        "size": "2TB",
    },
    "Session": SESSION,
    "SessionTemplate": {
        "parameters": {
            "lr": {
                "type": "number",
                "default": 0.1,
                "choices": [0.1, 0.2],
                "minimum": 0,
                "maximum": 1,
                "about": "learning rate",
            },
            "optimizer": {"pattern": "[a-z]+"},
        },
        "session": {"command": ["train", "--lr={{ lr }}", "{{ optimizer }}"]},
    },
    "Sweep": {
        "template": "trainer",
        "parameters": {"optimizer": "adam"},
        "over": {"lr": [0.1, 0.2]},
        "exclude": [{"lr": 0.2}],
        "sequential": True,
    },
    "Registry": {
        "type": "harbor",
        "address": "registry.example:5000",
        "plainHttp": False,
        "insecure": False,
        "caFrom": "files/lab.pem",
        "projects": ["vision"],
        "serves": ["vision/*"],
        "credentials": {"username": "robot$bai", "passwordFrom": "env/REGISTRY_PASSWORD"},
    },
    "Image": {
        "registry": "lab",
        "reference": "vision/pytorch:2.4-cuda12.4",
        "pin": "digest",
        "pullPolicy": "always",
        "architectures": ["amd64", "arm64"],
        "accelerators": ["cuda"],
        "ports": [{"name": "jupyter", "port": 8888, "protocol": "http"}],
        "minimum": {"cpu": 1, "memory": "1GiB"},
        "maximum": {"cpu": 64, "cuda.device": 8},
        "labels": {"ai.backend.resource.min.mem": "512m"},
        "prePull": {
            "all": False,
            "nodes": ["gpu-1"],
            "resourceGroups": ["a100"],
            "nodeSelector": {"rack": "r1"},
        },
    },
}
SPECS["Notification"] = {
    "cluster": "lab",
    "to": {
        "http": {
            "urlFrom": "env/HOOK",
            "method": "PUT",
            "headersFrom": {"Authorization": "files/token"},
            "signatureFrom": "env/HOOK_KEY",
            "caFrom": "files/lab.pem",
        }
    },
    "events": ["session-failed", "node-lost", "all"],
    "projects": ["vision"],
    "over": False,
    "waiting": "1h",
    "template": {"title": "{{ what }}", "text": "{{ resource }}", "body": "{{ text | tojson }}"},
    "throttle": {"every": "5m", "burst": 3, "digest": False},
}
SPECS["AppProxy"] = {
    "cluster": "lab",
    "url": "https://*.apps.example:8443",
    "node": "edge1",
    "ports": {
        "host": "gpu.example",
        "http": "30000-30099",
        "tcp": "31000-31099",
        "from": ["10.0.0.0/8"],
        "tls": False,
    },
    "widest": "public",
    "longestLink": "7d",
}
SPECS["SecretStore"] = {
    "entries": ["hf-token", "wandb-*"],
    "projects": ["vision", "*"],
    "infrastructure": True,
    "plugin": {"name": "vault", "options": {"path": "bai"}},
}
SPECS["Service"] = {
    "replicas": 3,
    "headroom": {"replicas": 2},
    "template": {"type": "inference", "command": ["serve"], "ports": [{"name": "api", "port": 8000}]},
    "readiness": {
        "http": {"port": "api", "path": "/health"},
        "period": "2s",
        "timeout": "1s",
        "failures": 2,
    },
    "liveness": {"tcp": {"port": "api"}, "period": "10s", "timeout": "5s", "failures": 6, "grace": "5m"},
    "update": {
        "surge": 2,
        "unavailable": 1,
        "minReady": "10s",
        "deadline": "30m",
        "rollback": False,
        "paused": True,
    },
    "autoscaling": {
        "min": 1,
        "max": 9,
        "inFlight": 8,
        "requestsPerSecond": 20,
        "latency": {"percentile": 99, "below": "2s"},
        "gpuUtilization": "80%",
        "prometheus": {"query": "sum(vllm:num_requests_waiting)", "target": 4},
        "up": {"window": "1m"},
        "down": {"window": "10m"},
        "hold": "10m",
        "schedule": [
            {
                "days": ["mon", "fri"],
                "since": "08:00",
                "until": "18:30",
                "timezone": "Europe/Berlin",
                "min": 2,
                "max": 12,
            }
        ],
    },
    "traffic": [{"generation": "stable", "weight": 90}, {"generation": "latest", "weight": 10}],
    "placement": "pack",
    "drain": "5m",
    "history": 20,
}
SPECS["Policy"] = {
    "cluster": "lab",
    "match": {"kinds": ["Session", "Node"], "projects": ["vision"], "labels": {"tier": "prod"}},
    "enforcement": "warn",
    "overridable": True,
    "guards": {
        "maxDeletions": {"count": 3, "percent": "10%"},
        "preventDestroy": True,
        "maxProvisioned": 2,
        "requireOwner": True,
        "images": {"allowed": ["registry.example/team/*"], "digest": True},
        "mounts": {"allowed": ["data*"], "readOnly": ["datasets"]},
        "forbid": ["root", "host-network", "capabilities"],
        "quotaHeadroom": "5%",
    },
    "validations": [{"expression": "action.verb != 'delete'", "message": "nothing is deleted"}],
}
PLACES: tuple[dict[str, Any], ...] = (
    {"type": "nfs", "nfs": {"server": "filer.example", "path": "/export/bai"}},
    {
        "type": "pvc",
        "pvc": {"storageClass": "fast.example", "accessModes": ["ReadWriteMany"], "size": "10GiB"},
    },
)
"""Specs of storage hosts that are no folder of the nodes."""
IN_PROJECT = {"Service", "Session", "SessionTemplate", "Sweep", "Volume"}


def document(kind: str) -> dict[str, Any]:
    """A document of this kind with every field."""
    metadata: dict[str, Any] = {
        "name": "x-1",
        "labels": {"team": "a"},
        "annotations": {"bai/protect": "true"},
    }
    if kind in IN_PROJECT:
        metadata["project"] = "vision"
    return {"apiVersion": "bai/v1", "kind": kind, "metadata": metadata, "spec": SPECS[kind]}
