"""Finds and reads the weights of transformers: safetensors, `.bin` or `.h5` files."""

import posixpath
import re

import numpy as np
from tensorflow.io import gfile

from bert_tf.conversion import hdf5, pytorch_file
from bert_tf.conversion.checkpoint_contents import to_float32
from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.checkpoint_formats import PYTORCH_FILES
from bert_tf.storage.paths import check_plain_name
from bert_tf.storage.safetensors_format import from_safetensors

# In the order of preference. A large model has an index and several files (shards)
# instead of one of these files.
FILES = ("model.safetensors", "pytorch_model.bin", "tf_model.h5")
_INDEX = ".index.json"
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.")
# TensorFlow's names begin with the names of the layer and of the model, which vary, as
# in bert/tf_bert_model_1/bert/encoder/layer_._0/output/dense/kernel:0. The names of
# heads begin with mlm___cls and nsp___cls.
_TENSORFLOW = re.compile(r"(?:.*/)?(bert|(?:\w+___)?cls|classifier|qa_outputs)/(.*)")
# DataParallel, torch.compile, classes of users and peft put these before names.
_WRAPPERS = re.compile(r"^((module|_orig_mod|model|base_model\.model)\.)+")
_ADAPTERS = re.compile(r"(^|\.)(lora_|base_layer\.)")
_LAYER = re.compile(r"/layer_\._(\d+)/")
# The ends of names in TensorFlow, in Flax and in the PyTorch of 2019.
_ENDINGS = {
    **dict.fromkeys(("kernel", "gamma", "scale", "embedding", "embeddings"), "weight"),
    "beta": "bias",
}


def find_weights(path: str) -> str | None:
    """Returns the path of the weights, or of their index if there are several files.

    The path may be a file of weights (.bin, .pt, .pth, .ckpt or .h5) or a folder, in
    which the first existing file of `FILES` is used. Returns None if there are no
    weights, or if the .ckpt file was written by TensorFlow.
    """
    folder, name = posixpath.split(path)
    if (
        name.endswith((*PYTORCH_FILES, ".h5"))
        and not name.endswith(".weights.h5")
        and files.is_file(path)
        and (not name.endswith(".ckpt") or pytorch_file.has_start(path))
    ):
        # The path of one shard stands for all shards.
        index = posixpath.join(folder, _SHARD.sub(".", name) + _INDEX)
        return index if _SHARD.search(name) and files.exists(index) else path
    if not gfile.isdir(path):
        return None

    names = files.list_folder(path)
    # A checkpoint of google-research/bert may have a copy for PyTorch next to it.
    if "config.json" not in names and any(
        filename.endswith(".index") for filename in names
    ):
        return None

    for filename in FILES:
        for end in ("", _INDEX):
            if filename + end in names:
                return posixpath.join(path, filename + end)
    return None


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Reads the weights that `find_weights` found, with the names and axes of PyTorch.

    Floats become float32. Raises `InputError` for weights with an unmerged adapter of
    peft, and for an index that names a missing file or one in another folder.
    """
    folder, name = posixpath.split(path)
    names = [name]
    if name.endswith(_INDEX):
        schema = {"weight_map": json_files.OBJECT}
        shards = json_files.read(path, schema, required=True)["weight_map"]
        names = sorted({str(filename) for filename in shards.values()})
        for filename in names:
            check_plain_name(filename, path)
            if not files.exists(posixpath.join(folder, filename)):
                raise InputError(
                    f"{path} names a file that does not exist: {folder}/{filename:.80}. "
                    "Copy all files of the model."
                )

    tensors: dict[str, np.ndarray] = {}
    for filename in names:
        stored_tensors = _read_file(posixpath.join(folder, filename))
        for stored_name, stored in stored_tensors.items():
            new_name, array = _as_in_pytorch(stored_name, stored)
            # TensorFlow stores tied embeddings twice, as equal copies.
            first = tensors.setdefault(new_name, array)
            if first is not array and not np.array_equal(first, array):
                raise InputError(
                    f"{path} has two weights for {new_name}, the second one at "
                    f"{stored_name}. Save the model with one encoder."
                )

    adapters = list(filter(_ADAPTERS.search, tensors))
    # transformers adds the adapter next to weights.
    if file := files.find_file(folder, "adapter_config.json"):
        adapters.append(file)
    if adapters:
        raise InputError(
            f"{path} has an adapter of peft, such as {adapters[0]}, which is not read. "
            "Merge it into the model with merge_and_unload, and save the model."
        )
    return tensors


def _read_file(path: str) -> dict[str, np.ndarray]:
    """Reads the tensors of one file, floats as float32, with their names in the file."""
    if path.endswith(".h5"):
        return hdf5.read_arrays(path)
    if path.endswith(PYTORCH_FILES):
        return pytorch_file.read_tensors(path)
    tensors = from_safetensors(files.read_bytes(path), path)
    return {name: to_float32(array) for name, array in tensors.items()}


def _as_in_pytorch(name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    """Returns the name of a weight in PyTorch, and the weight with the axes of PyTorch.

    `name` may be a name in PyTorch, TensorFlow or Flax. Kernels of the last two have
    the shape [in, out].
    """
    if match := _TENSORFLOW.fullmatch(name):
        head, rest = match.groups()
        name = f"{head.rpartition('___')[2]}/{rest}".removesuffix(":0")
        name = _LAYER.sub(r"/layer.\1/", name).replace("/", ".")

    *scopes, end = _WRAPPERS.sub("", name).split(".")
    name = ".".join([*scopes, _ENDINGS.get(end, end)])
    return name, array.T if end == "kernel" else array
