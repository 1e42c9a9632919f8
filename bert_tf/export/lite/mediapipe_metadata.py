"""Adds metadata for MediaPipe's `TextClassifier` and `TextEmbedder` to a TFLite file.

MediaPipe's own writers cannot be imported since version 0.10.31, but its package
contains the classes of the schema of the metadata.

Source: the metadata schema of tflite-support, and its writer for BERT classifiers.
"""

from typing import Any

import flatbuffers
import numpy as np

from bert_tf.export.assets import LABELS_FILE
from bert_tf.storage.weights import VOCABULARY_FILE

_NAME = b"TFLITE_METADATA"
_IDENTIFIER = b"M001"
_PARSER_VERSION = "1.1.0"  # the first version with tokenizers of BERT
# MediaPipe's names of the inputs, by their names in bert-tf.
_INPUTS = {"input_ids": "ids", "input_mask": "mask", "segment_ids": "segment_ids"}
_ALIGNMENT = 16  # of the weights in a TFLite file
_MARGIN = 1 << 16


def is_installed() -> bool:
    """Returns whether the package mediapipe can be imported."""
    try:
        import mediapipe.tasks.metadata.metadata_schema_py_generated  # noqa: F401
    except ImportError:
        return False
    return True


def with_metadata(model: bytes, has_labels: bool) -> bytes:
    """Adds metadata for MediaPipe to a TFLite file, and returns the file.

    `model` has the inputs `input_ids`, `input_mask` and `segment_ids`, one output, and
    no ZIP archive. The metadata names the vocabulary and label files, which are
    appended later. Without `has_labels`, it describes the output as a vector.
    """
    from ai_edge_litert import schema_py_generated as schema

    root = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))
    metadata = _packed(_metadata(root, has_labels), _IDENTIFIER)
    entry = schema.MetadataT()
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(metadata, np.uint8)
    entry.name = _NAME
    entry.buffer = len(root.buffers)
    root.buffers.append(buffer)
    root.metadata = [*(root.metadata or []), entry]
    # A smaller builder would copy the weights each time it grows.
    return _packed(root, b"TFL3", len(model) + len(metadata) + _MARGIN)


def _metadata(root: Any, has_labels: bool) -> Any:
    """Returns the metadata of the model `root`, as an object of MediaPipe's schema."""
    from mediapipe.tasks.metadata import metadata_schema_py_generated as schema

    types = schema.AssociatedFileType
    vocabulary = schema.AssociatedFileT(name=VOCABULARY_FILE, type=types.VOCABULARY)
    tokenizer = schema.ProcessUnitT(
        optionsType=schema.ProcessUnitOptions.BertTokenizerOptions,
        options=schema.BertTokenizerOptionsT(vocabFile=[vocabulary]),
    )
    content = schema.ContentT(
        contentPropertiesType=schema.ContentProperties.FeatureProperties,
        contentProperties=schema.FeaturePropertiesT(),
    )
    output = schema.TensorMetadataT(name="embedding", content=content)
    if has_labels:
        labels = schema.AssociatedFileT(name=LABELS_FILE, type=types.TENSOR_AXIS_LABELS)
        output.name = "probability"
        output.associatedFiles = [labels]
    graph = schema.SubGraphMetadataT(
        # The converter changes the order of the inputs.
        inputTensorMetadata=[
            schema.TensorMetadataT(name=name, content=content)
            for name in _input_names(root)
        ],
        outputTensorMetadata=[output],
        inputProcessUnits=[tokenizer],
    )
    return schema.ModelMetadataT(
        name="BERT", subgraphMetadata=[graph], minParserVersion=_PARSER_VERSION
    )


def _input_names(root: Any) -> list[str]:
    """Returns MediaPipe's names of the inputs, in the order of the graph."""
    tensors = root.signatureDefs[0].inputs
    names = {tensor.tensorIndex: tensor.name.decode() for tensor in tensors}
    return [_INPUTS[names[index]] for index in root.subgraphs[0].inputs]


def _packed(value: Any, identifier: bytes, size: int = 1024) -> bytes:
    """Serializes an object of a schema. `size` is the expected number of bytes."""
    builder = _Builder(size)
    builder.Finish(value.Pack(builder), file_identifier=identifier)
    return bytes(builder.Output())


class _Builder(flatbuffers.Builder):
    """A builder that aligns vectors of bytes, such as weights, as TFLite requires."""

    def StartVector(self, elemSize: int, numElems: int, alignment: int) -> Any:  # noqa: N802, N803
        """Starts a vector; see `flatbuffers.Builder`."""
        if elemSize == 1 and numElems:
            alignment = max(alignment, _ALIGNMENT)
        return super().StartVector(elemSize, numElems, alignment)
