"""`DIALECTS`: the checkpoint formats (dialects), by name.

An entry states everything that the programs know about a dialect, except how its files
are read and written. This is in a module of `bert_tf.conversion` with a function
`read(path, slots)`: it reads the checkpoint at `path`, which has no trailing slash, and
Adam's moments too if `slots` is true. It returns `CheckpointContents`, or None if there
is no checkpoint of this dialect. If bert-tf writes the dialect, the module also has a
function `write(folder, contents)`, which writes a checkpoint to an empty folder, and
returns its path, as `read_weights` accepts it. If the author's programs ignore some
settings of `BertConfig`, a dict `SUPPORTED_SETTINGS` has the values that they support.

This module is part of `storage`, because flags and the checks of output folders need
the entries, without TensorFlow or Keras.
"""

import dataclasses
import fnmatch
import posixpath
import re
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True)
class Written:
    """The folder that bert-tf writes in a dialect.

    Attributes:
        text: A description of the folder, for help texts.
        last_file: The file that is written last. A folder without it is unfinished.
        files: A regular expression of the names of the other files, relative to the
            folder.
        stores: What the folder stores besides weights and tokenizer: "slots" (Adam's
            moments), "labels" (with the type of the task), or "facts" (all facts about
            the model).
    """

    text: str
    last_file: str
    files: str
    stores: tuple[str, ...] = ()

    def is_own_file(self, name: str) -> bool:
        """Whether the writer creates files of this name."""
        return name == self.last_file or re.fullmatch(self.files, name) is not None


@dataclasses.dataclass(frozen=True)
class Dialect:
    """A checkpoint format.

    Attributes:
        module: The name of the module in `bert_tf.conversion`.
        author: The programs that write the dialect, for help texts.
        source: The paths that are read, for help texts.
        marks: Names or globs of files. One such file shows that a folder contains a
            checkpoint. The first entry is a name, for messages.
        weights: Globs of files with weights. In an archive, the folder with such a file
            is read.
        files: A regular expression of the names of files that belong to a checkpoint,
            apart from texts and settings (`_SETTINGS`).
        hub_files: Globs of the files that are downloaded from the Hugging Face hub; ()
            if the hub has no checkpoints of this dialect.
        hub_alternatives: Globs that are tried one after the other if no files that
            match `hub_files` of any dialect have weights.
        written: The folder that bert-tf writes; None if the dialect can only be read.
    """

    module: str
    author: str
    source: str
    marks: tuple[str, ...]
    weights: tuple[str, ...]
    files: str
    hub_files: tuple[str, ...] = ()
    hub_alternatives: tuple[str, ...] = ()
    written: Written | None = None


_TENSORFLOW_FILES = r"checkpoint|.*\.(index|meta|data-\d{5}-of-\d{5})"
# The names of texts and settings in the folders of checkpoints.
_SETTINGS = (
    r".*(config|vocab|tokenizer|special_tokens|modules|weights|state).*\.(json|txt)"
)

# `read_weights` uses the first dialect that recognizes the path. A weights folder has
# the names of a Hugging Face folder too, and a Hugging Face folder may also contain a
# TensorFlow checkpoint of the same model.
DIALECTS = {
    "bert-tf": Dialect(
        module="weights_folder",
        author="bert-tf",
        source="a weights folder, a checkpoint or an output folder of bert-tf",
        marks=("weights.json", "model.safetensors"),
        weights=("*.safetensors",),
        files=r".*\.safetensors",
        written=Written(
            text="a weights folder of bert-tf",
            last_file="weights.json",
            files=r"model\.safetensors|bert_config\.json|vocab\.txt|new_words\.tsv",
            stores=("facts",),
        ),
    ),
    "hugging_face": Dialect(
        module="hugging_face",
        author="Hugging Face",
        source="a Hugging Face folder",
        marks=("model.safetensors", "pytorch_model.bin", "tf_model.h5"),
        weights=(
            "*.safetensors",
            "pytorch_model*.bin",
            "tf_model*.h5",
        ),
        files=r".*\.(safetensors|bin|pt|pth|ckpt|h5)(\.index\.json)?",
        hub_files=("*.json", "*.txt", "*.safetensors"),
        hub_alternatives=("pytorch_model*.bin", "tf_model*.h5"),
        written=Written(
            text="a folder of transformers",
            last_file="model.safetensors",
            files=r"config\.json|tokenizer_config\.json|vocab\.txt|modules\.json"
            r"|(config_sentence_transformers|sentence_bert_config)\.json"
            r"|1_Pooling/(config\.json)?",
            stores=("labels",),
        ),
    ),
    "model_garden": Dialect(
        module="model_garden",
        author="the Model Garden",
        source="a TensorFlow Model Garden checkpoint",
        marks=("bert_model.ckpt.index", "*.ckpt*.index"),
        weights=("*.index",),
        files=_TENSORFLOW_FILES,
    ),
    "tensorflow_hub": Dialect(
        module="tensorflow_hub",
        author="TensorFlow Hub",
        source="a SavedModel of TensorFlow Hub",
        marks=("saved_model.pb",),
        weights=("saved_model.pb",),
        files=r"saved_model\.pb",
        hub_files=("saved_model.pb", "variables/variables.*", "assets/*"),
    ),
    "keras_hub": Dialect(
        module="keras_hub",
        author="keras-hub",
        source="a preset or a .keras file of keras-hub",
        marks=("model.weights.h5", "model.weights.json"),
        weights=("*.weights.h5",),
        files=r".*\.weights\.h5|(task|preprocessor|metadata)\.json",
        hub_files=("*.weights.h5",),
        written=Written(
            text="a preset of keras-hub",
            last_file="model.weights.h5",
            files=r"(config|tokenizer|preprocessor|task|metadata)\.json"
            r"|task\.weights\.h5|assets/(tokenizer/(vocabulary\.txt)?)?",
        ),
    ),
    "google": Dialect(
        module="google",
        author="google-research/bert",
        source="a google-research/bert checkpoint (.../bert_model.ckpt)",
        marks=("bert_model.ckpt.index", "*.ckpt*.index"),
        weights=("*.index",),
        files=_TENSORFLOW_FILES,
        written=Written(
            text="bert_model.ckpt of google-research/bert",
            last_file="checkpoint",
            files=r"(bert_model\.ckpt|model\.ckpt-\d+)\.(index|meta|data-\d{5}-of-\d{5})"
            r"|bert_config\.json|tokenizer_config\.json|vocab\.txt",
            stores=("slots",),
        ),
    ),
}
# A path to a file of these names stands for its folder. Other files, such as
# pytorch_model.bin, are read themselves, even if the folder has a preferred file.
_OF_FOLDER = re.compile(
    r"model(-\d{5}-of-\d{5})?\.safetensors|saved_model\.pb|(model|task)\.weights\.h5"
)
PYTORCH_FILES = (".bin", ".pt", ".pth", ".ckpt")
ZIP_FILES = (".zip", ".keras")
ARCHIVES = (*ZIP_FILES, ".tar.gz", ".tgz")  # files that may contain a checkpoint
WRITABLE = {name: each.written for name, each in DIALECTS.items() if each.written}
WRITABLE_DIALECTS = tuple(WRITABLE)


def writers_of(content: str) -> str:
    """Returns the names of the dialects that store `content`, a value in `Written.stores`."""
    return listed(
        name for name, written in WRITABLE.items() if content in written.stores
    )


def marks_in(names: Iterable[str]) -> list[str]:
    """Returns those of `names`, files in a folder, which show that the folder has a checkpoint."""
    globs = {mark for dialect in DIALECTS.values() for mark in dialect.marks}
    return [name for name in names for glob in globs if fnmatch.fnmatch(name, glob)]


def has_weights(names: Sequence[str]) -> bool:
    """Whether one of the names of files in a folder matches a glob of files with weights."""
    globs = {glob for dialect in DIALECTS.values() for glob in dialect.weights}
    return any(fnmatch.filter(names, glob) for glob in globs)


def is_file_of_checkpoint(name: str) -> bool:
    """Whether a file of this name may belong to a checkpoint in the same folder."""
    patterns = (_SETTINGS, *(dialect.files for dialect in DIALECTS.values()))
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def folder_of(path: str) -> str:
    """Returns the folder of a file whose name matches `_OF_FOLDER`; other paths unchanged."""
    folder, name = posixpath.split(path)
    return (folder or ".") if _OF_FOLDER.fullmatch(name) else path


def listed(texts: Iterable[str]) -> str:
    """Returns the texts, without duplicates, as a list in a sentence, such as "a, b or c"."""
    *others, last = dict.fromkeys(texts)
    return f"{', '.join(others)} or {last}" if others else last


# For help texts; the original programs come first.
AUTHORS = listed(each.author for each in reversed(DIALECTS.values()))
SOURCES = listed(
    [
        *(each.source for each in DIALECTS.values()),
        "a .zip or .tar.gz file with one of these",
        "hf://owner/name",
    ]
)
