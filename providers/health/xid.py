"""Which Xid errors are a program's fault, and which leave a GPU unfit.

Numbers, names and first actions are those of NVIDIA's Xid catalog
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) as NVIDIA's own health monitor maps them
(NVIDIA/NVSentinel, gpu-health-monitor/xiderrorsmapping.csv): what it restarts a program for or ignores is
`application`. Numbers that the catalog calls unused, or that concern displays and video, are in neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

XidKind = Literal["application", "fatal"]
_RESET = "stop what runs on the GPU and reset it (then: bai nodes check --settle), or reboot"
_REBOOT = "reboot the node; when it happens again, replace the GPU"
_LINK = "check NVLink (nvidia-smi nvlink -e), reset the GPUs of the link; when it happens again, replace"
_ECC = "drain the node, reset the GPU; row remapping tells whether it must be replaced"


@dataclass(frozen=True, slots=True)
class XidMeaning:
    words: str
    kind: XidKind
    advice: str = ""


_APPLICATION = {
    8: "a channel stood still", 11: "invalid method", 13: "graphics engine exception",
    25: "invalid notification", 31: "memory page fault", 32: "invalid or corrupted push buffer",
    37: "driver firmware error", 38: "driver firmware watchdog", 39: "copy engine 0", 40: "copy engine 1",
    41: "copy engine 2", 43: "a channel was reset", 44: "fault in a context switch",
    45: "preemptive removal after other errors", 60: "video processor exception",
    63: "a row is marked for remapping, or a page retired", 66: "illegal access by the driver",
    67: "illegal access by the driver", 68: "video decoder", 69: "graphics engine class error",
    70: "copy engine 3", 71: "copy engine 4", 72: "copy engine 5", 75: "copy engine 6", 76: "copy engine 7",
    77: "copy engine 8", 80: "corrupted data sent to the GPU", 82: "JPEG decoder", 83: "video decoder",
    84: "video decoder", 85: "copy engine 9", 86: "optical flow", 88: "video decoder", 89: "video decoder",
    92: "many single-bit ECC errors", 93: "InfoROM is worn", 94: "contained ECC error",
    121: "corrected error of the link between chips", 137: "NVLink privilege error of a peer",
    141: "fast path error", 154: "the recovery action changed",
}  # fmt: skip
_RESETS = {
    46: "the GPU stopped", 62: "the power controller halted", 64: "row remapping or page retirement failed",
    95: "uncontained ECC error", 109: "context switch timed out", 110: "security fault",
    119: "the GPU's system processor (GSP) does not answer", 120: "error of the GPU's system processor (GSP)",
    136: "link training failed", 140: "unrecoverable ECC error", 143: "initialisation failed",
    155: "NVLink software error", 156: "a resource was retired", 158: "fatal timeout",
    162: "the GPU needs a reset",
}  # fmt: skip
_LINKS = {
    74: "NVLink error", 144: "NVLink SAW error", 145: "NVLink RLW error", 146: "NVLink TLW error",
    147: "NVLink TREX error", 148: "NVLink controller error", 149: "NVLink network error",
    150: "NVLink MSE error",
}  # fmt: skip
_OTHERS = {
    48: XidMeaning("double-bit ECC error", "fatal", _ECC),
    54: XidMeaning("auxiliary power is not connected", "fatal", "check the GPU's power cables"),
    58: XidMeaning("memory error", "fatal", _RESET),
    61: XidMeaning("the power controller stopped at a breakpoint", "fatal", _RESET),
    79: XidMeaning("the GPU has fallen off the bus", "fatal", _REBOOT),
    122: XidMeaning("the power controller cannot read its flash", "fatal", _REBOOT),
    123: XidMeaning("the power controller cannot write its flash", "fatal", _REBOOT),
    125: XidMeaning("the InfoROM's file system is damaged", "fatal", _REBOOT),
    151: XidMeaning("key rotation failed", "fatal", "restart the virtual machine"),
    160: XidMeaning("a memory channel was retired", "fatal", _REBOOT),
}

XIDS: dict[int, XidMeaning] = {
    **{number: XidMeaning(words, "application") for number, words in _APPLICATION.items()},
    **{number: XidMeaning(words, "fatal", _RESET) for number, words in _RESETS.items()},
    **{number: XidMeaning(words, "fatal", _LINK) for number, words in _LINKS.items()},
    **_OTHERS,
}
