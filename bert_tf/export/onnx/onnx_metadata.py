"""Vocabulary, labels and facts in the metadata of an ONNX file."""

from collections.abc import Mapping
from typing import Any

from bert_tf.errors import InputError


def with_metadata(model: bytes, embedded: Mapping[str, bytes]) -> bytes:
    """Returns an ONNX model with texts in its metadata.

    Args:
        model: A serialized ModelProto.
        embedded: Each text, UTF-8, by name.
    """
    import onnx

    entries = [{"key": name, "value": text.decode()} for name, text in embedded.items()]
    # Two messages of protobuf in a row are one that has the fields of both.
    return model + onnx.ModelProto(metadata_props=entries).SerializeToString()


def read_metadata(path: str, session: Any, *names: str) -> list[bytes]:
    """Returns texts from the metadata of an ONNX file.

    Args:
        path: The path of the file, for messages.
        session: The file in ONNX Runtime.
        *names: The names of the texts.

    Raises:
        InputError: bert-tf did not write the file.
    """
    found = session.get_modelmeta().custom_metadata_map
    if names[0] not in found:
        raise InputError(
            f"{path} contains no {names[0]}: it is not an ONNX file of bert-tf. Export the model "
            "again with --format=onnx."
        )
    return [found[name].encode() for name in names]
