#!/usr/bin/python3
"""`gdscheck -p` of a machine whose NVMe path works once nvidia-fs is loaded, and falls back before."""

import json
from pathlib import Path

loaded = Path("/sys/module/nvidia_fs").is_dir()
settings = json.loads(Path("/etc/cufile.json").read_text())
word = "Supported" if loaded else "Unsupported"
compat = str(settings["properties"]["allow_compat_mode"]).lower()
print(f""" GDS release version: 1.11.1.6
 nvidia_fs version:  2.22 libcufile version: 2.12
 Platform: x86_64
 =====================
 DRIVER CONFIGURATION:
 =====================
 NVMe P2PDMA        : Unsupported
 NVMe               : {word}
 NVMeOF             : Unsupported
 WekaFS             : Unsupported
 Userspace RDMA     : Unsupported
 --rdma library        : Not Loaded (libcufile_rdma.so)
 =====================
 CUFILE CONFIGURATION:
 =====================
 properties.use_compat_mode : {compat}
 =========
 GPU INFO:
 =========
 GPU index 0 NVIDIA H100 80GB HBM3 bar:1 bar size (MiB):131072 supports GDS, IOMMU State: Disabled
 ==============
 PLATFORM INFO:
 ==============
 IOMMU: disabled
 Nvidia Driver Info Status: Supported(Nvidia Open Driver Installed)
 Platform verification succeeded""")
