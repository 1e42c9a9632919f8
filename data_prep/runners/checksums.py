"""Compares record files with the checksums in the manifests next to them.

Imports `manifest`.
"""

import os

from bert_tf.manifest import Manifest, list_shards, manifests_next_to


class Manifests:
    """The manifests next to record files; each folder is read once."""

    def __init__(self) -> None:
        self._by_folder: dict[str, list[Manifest]] = {}

    def differ(self, path: str) -> bool:
        """Whether manifests in the folder of a file list it, but not with its SHA-256."""
        folder = os.path.dirname(path)
        if folder not in self._by_folder:
            self._by_folder[folder] = manifests_next_to([path], skip_damaged=True)
        listed = list_shards(self._by_folder[folder], path)
        return bool(listed) and not any(shard.has_recorded_checksum() for _, shard in listed)
