"""Compares record files with the checksums in the manifests next to them.

Imports `manifest`.
"""

from bert_tf.manifest import list_shards, manifests_next_to


class Manifests:
    """The manifests next to record files."""

    def differ(self, path: str) -> bool:
        """Whether manifests in the folder of a file list it, but not with its SHA-256."""
        listed = list_shards(manifests_next_to([path], skip_damaged=True), path)
        return bool(listed) and not any(shard.has_recorded_checksum() for _, shard in listed)
