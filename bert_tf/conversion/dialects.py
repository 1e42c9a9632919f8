"""`DIALECTS`: the module of each dialect (checkpoint format).

A module has a function `read(path, slots)`, which reads the checkpoint at `path`, which
has no trailing slash, and Adam's moments too if `slots` is true. It returns
`CheckpointContents`, or None if there is no checkpoint of this dialect. A function
`write(folder, contents)` writes a checkpoint to an empty folder, and returns its path,
as `read_weights` accepts it. A module without `write` can only read.
"""

from types import ModuleType

from bert_tf.conversion import google, hugging_face, model_garden, weights_folder

# `read_weights` uses the first dialect in this dict that recognizes the path. A Hugging
# Face folder may also contain a TensorFlow checkpoint of the same model, so
# "hugging_face" precedes "google".
DIALECTS: dict[str, ModuleType] = {
    "bert-tf": weights_folder,
    "hugging_face": hugging_face,
    "google": google,
    "model_garden": model_garden,
}
WRITABLE_DIALECTS = tuple(
    name for name, module in DIALECTS.items() if hasattr(module, "write")
)
