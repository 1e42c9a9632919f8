"""Whether records are still the bytes that the manifest beside them lists.

Imports `outputs`; TensorFlow inside functions.
"""

import contextlib
import os

from bert_tf.errors import InputError
from data_prep.runners import outputs


class Manifests:
    """The manifests of `create_pretraining_data`, each folder's read once."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, str]] = {}

    def differ(self, path: str) -> bool:
        """Whether a manifest in the file's folder lists it with another SHA-256."""
        folder = os.path.dirname(path)
        if folder not in self._folders:
            self._folders[folder] = _listed(folder)
        expected = self._folders[folder].get(outputs.place(path))
        return expected is not None and expected != outputs.identity(path)["sha256"]


def _listed(folder: str) -> dict[str, str]:
    """SHA-256 of all shards that the manifests of a folder list."""
    from tensorflow.io import gfile

    found: dict[str, str] = {}
    for path in gfile.glob(os.path.join(folder, "*.manifest.json")):
        with contextlib.suppress(InputError):
            manifest = outputs.read_manifest(path)
            if manifest.get("format") == outputs.FORMAT:
                shards = outputs.listed(folder, manifest)
                found.update({place: shard["sha256"] for place, shard in shards.items()})
    return found
