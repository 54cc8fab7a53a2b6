"""A volume's folder as nodes are asked for it."""

from __future__ import annotations

from providers.storage.base import VolumeFolder


def folder_request(folder: VolumeFolder) -> dict[str, object]:
    return {
        "volume": folder.volume, "root": folder.root, "path": folder.path, "fileSystems": folder.file_systems,
        "uid": folder.uid, "gid": folder.gid, "newOwner": folder.new_owner, "mode": folder.mode,
        "quota": folder.quota, "projects": folder.projects,
    }  # fmt: skip
