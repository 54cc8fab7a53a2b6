"""Every code of a `Problem`: what it says and what to do. The reference is generated from this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """One kind of problem: a title, and what to do about it."""

    title: str
    remedy: str


_TABLE = {
    "BAI-V001": (
        "The file cannot be read",
        "Give a plain file that may be read; pipes, devices and sockets are refused.",
    ),
    "BAI-V002": ("The file is too large", "Split it: a file of documents holds at most 1 MiB."),
    "BAI-V003": ("The file is not UTF-8", "Save it as UTF-8."),
    "BAI-V004": ("A symbolic link leaves the repository", "Copy the file into the repository."),
    "BAI-V005": ("Not YAML", "Correct the syntax at this place."),
    "BAI-V006": ("Nested too deeply", "At most 64 levels are read."),
    "BAI-V007": (
        "Aliases grow too large",
        "Write them out: aliases stand for at most 100,000 values of a document, 1,048,576 characters of "
        "a file, and never for themselves.",
    ),
    "BAI-V008": ("A key stands twice", "Remove one of the two: it is not guessed which one was meant."),
    "BAI-V009": ("A key is not a text", "Put the key into quotes."),
    "BAI-V010": ("A YAML tag", "Remove the tag: documents hold plain values only."),
    "BAI-V011": ("A merge key", "Write the merged keys out: `<<` is not part of YAML 1.2."),
    "BAI-V012": (
        "YAML versions disagree about this value",
        "Put it into quotes, or write true, false or a plain number.",
    ),
    "BAI-V013": ("Not a finite number", "Infinity, NaN and numbers beyond any amount are refused."),
    "BAI-V014": ("Not a document", "A document is a mapping with apiVersion, kind, metadata and spec."),
    "BAI-V015": ("Unknown apiVersion", "Write `apiVersion: bai/v1`."),
    "BAI-V016": ("Unknown kind", "Use one of the kinds of the reference."),
    "BAI-V017": (
        "Too much in one place",
        "Split it: a file has at most 20,000 documents, a document at most 20,000 values.",
    ),
    "BAI-V018": (
        "Too many mistakes",
        "Correct the first ones: of one file 100 are told, of a repository 1,000.",
    ),
    "BAI-V020": ("Unknown field", "Correct the name; unknown fields are never ignored."),
    "BAI-V021": ("A required field is missing", "Add it."),
    "BAI-V030": ("Not one of the choices", "Use one of the named values."),
    "BAI-V031": (
        "A value of the wrong type",
        "Give the type that is asked for; nothing is converted silently.",
    ),
    "BAI-V032": (
        "Not an amount, or an impossible one",
        "Give an amount in the form and range that is asked for.",
    ),
    "BAI-V033": ("Not a safe name", "Use only the characters that are safe as hostname, path and label."),
    "BAI-V034": ("Fields that do not go together", "Leave out one of them."),
    "BAI-V040": ("Nothing has this name", "Correct the reference, or add what it names."),
    "BAI-V041": ("Sessions wait for each other", "Break the circle of dependsOn."),
    "BAI-V042": ("Two documents have one identity", "Rename or remove one of them."),
    "BAI-V043": ("Not clear which one is meant", "Name it."),
    "BAI-V050": ("Against a rule of the kind", "See the message: what stands there cannot work."),
    "BAI-V051": ("Not a range pattern", "Write ranges as gpu-[001-128]; a pool has at most 16,384 nodes."),
    "BAI-V052": ("Not a description of hardware", "Save one with `bai nodes probe`."),
    "BAI-V053": ("The tenancy does not allow it", "Change the user's or the project's document."),
    "BAI-V054": (
        "More or less than the image allows",
        "Give the container what its Image document asks for, or correct that document.",
    ),
    "BAI-V055": (
        "A template that cannot be filled in",
        "Correct the template, or what it is given.",
    ),
    "BAI-V056": (
        "A secret store that only the cluster's owner may declare",
        "Declare it in the owner's file (`--secret-stores`, /etc/bai/secret-stores.yaml).",
    ),
    "BAI-V057": (
        "A secret that is not to be had here",
        "Name an entry of a store that is granted, or have the store's owner grant it.",
    ),
    "BAI-V058": (
        "A SOPS file that cannot be used",
        "Encrypt it with `sops` for recipients of age, texts at its top level, and commit it.",
    ),
    "BAI-V059": (
        "An expression that is none in CEL",
        "Correct it at the line and column that are named, counted from the expression's own beginning.",
    ),
    "BAI-V060": (
        "Not the exact version of a driver",
        "Write it in full, such as 550.90.07: a branch is another driver every month.",
    ),
    "BAI-V061": (
        "The driver's kernel modules are of the wrong flavour",
        "Open ones are for Turing and newer, and the only ones for Blackwell and Grace Hopper; proprietary "
        "ones end with branch 615.",
    ),
    "BAI-V062": ("The driver is too old or too new for a GPU", "Choose a version that runs this GPU."),
    "BAI-V063": ("The fabric manager is not of the driver's version", "Leave its version out."),
    "BAI-V064": (
        "Engine, container toolkit and CDI do not go together",
        "See the message: containers would not get, or would lose, their GPUs.",
    ),
    "BAI-V065": ("A MIG layout that no GPU has", "Use profiles of the GPU, and as many as have places."),
    "BAI-V066": ("The driver is too old for MIG on a GPU", "Choose a newer version."),
    "BAI-V067": (
        "GPUDirect Storage cannot work so",
        "See the message: it would silently go through the processor's memory.",
    ),
    "BAI-V068": (
        "Network cards cannot reach GPU memory so",
        "Use DMA-BUF with the open kernel modules, or nvidia-peermem with OFED's modules.",
    ),
    "BAI-V069": (
        "Kernel, headers and modules are not a set",
        "Leave the headers out: they follow the kernel.",
    ),
    "BAI-V070": ("The operating system does not have it", "See the message for what there is."),
    "BAI-V071": ("The IOMMU is set to one thing and expected to be another", "Write one of the two."),
    "BAI-V072": ("The GPU cannot be shared through MPS", "Leave the section out."),
    "BAI-V073": ("A section of a profile needs another one", "Add it."),
    "BAI-V074": (
        "A profile does not suit a machine",
        "Correct the profile, give the node another one, or correct what its document says of its hardware.",
    ),
    "BAI-V075": (
        "Set in two places of a profile",
        "Keep it in its own section: two versions of one package would be changed back and forth.",
    ),
    "BAI-V091": (
        "Not safe",
        "It works, but whoever is on the network can read or change what is sent; use TLS that is verified.",
    ),
    "BAI-V092": (
        "Not checked",
        "It is accepted as it stands; whether it works is seen on the node.",
    ),
    "BAI-V093": (
        "A secret store that is not known on this machine",
        "The machine that applies must know it; give `--secret-stores` here, too, to have it checked.",
    ),
    "BAI-V094": (
        "A line of CODEOWNERS that cannot be understood",
        "Write `pattern owner...`: patterns as in .gitignore, owners as e-mail addresses or @team.",
    ),
    "BAI-V095": (
        "Little CPU beside a GPU",
        "Ask for a core or more: with half of one, half of a GPU did half of its work.",
    ),
    "BAI-V090": (
        "Accepted, but nothing acts on it yet",
        "Nothing needs to be done; this release does not carry it out.",
    ),
}

CODES: Mapping[str, ProblemCode] = MappingProxyType(
    {code: ProblemCode(*texts) for code, texts in _TABLE.items()}
)
