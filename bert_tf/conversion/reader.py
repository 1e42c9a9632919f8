"""`read_weights` reads a checkpoint from a folder, an archive or the Hugging Face hub."""

import dataclasses
import importlib
import logging
import os
import posixpath
import re
import stat
import tarfile
import zipfile
from types import ModuleType

from tensorflow.io import gfile

from bert_tf.config import SIZES, BertConfig
from bert_tf.conversion import hugging_face
from bert_tf.conversion.checkpoint_contents import CheckpointContents, check_weights
from bert_tf.conversion.sentence_transformers import OLD_FOLDER
from bert_tf.errors import InputError, Path
from bert_tf.optional_packages import import_package
from bert_tf.storage import checkpoint_formats, files, json_files
from bert_tf.storage.checkpoint_formats import DIALECTS
from bert_tf.storage.paths import check_file_system
from bert_tf.tokenization.vocabulary import load_vocabulary, released_casing

_HUB = "hf://"
_HUB_NAME = r"[\w-][\w.-]*(/[\w.-]+)?"  # may also be a relative path
_LOG = logging.getLogger(__name__)


def read_weights(path: str, slots: bool = False) -> CheckpointContents:
    """Reads a checkpoint of any dialect, and the config and vocabulary next to it.

    Args:
        path: A weights folder or a training checkpoint; the output folder of a run (its
            best weights if it used early stopping, else its newest checkpoint); a
            checkpoint of google-research/bert or the Model Garden (prefix or folder); a
            Hugging Face folder, or its `pytorch_model.bin` or `tf_model.h5`; a preset
            or `.keras` file of keras-hub; a SavedModel of TensorFlow Hub; a `.zip` or
            `.tar.gz` file with one of these; or `hf://owner/name[@revision]`.
        slots: Whether to read Adam's moments too, which only checkpoints of
            google-research/bert and training checkpoints of bert-tf can contain.

    Raises:
        InputError: There is no checkpoint at the path, the checkpoint cannot be read,
            or a weight is NaN or infinite.
    """
    if path.startswith(_HUB):
        contents = _read_from_hub(path)
    else:
        check_file_system(path)
        if path.endswith(checkpoint_formats.ARCHIVES) and not gfile.isdir(path):
            contents = _read_archive(path, slots)
        else:
            contents = _read(path.rstrip("/") or path, slots)
    check_weights(contents)
    return contents


def read_config(path: str) -> BertConfig:
    """Reads a `bert_config.json`, or a `config.json` of Hugging Face."""
    values = json_files.read(path)
    # Some activation names mean other functions in Hugging Face, for example "gelu".
    if hugging_face.CONFIG_KEYS.intersection(values):
        return hugging_face.config_from_hugging_face(values, path)
    return BertConfig.from_dict(values, path)


def read_config_or_size(path_or_size: str, vocab_file: Path | None) -> BertConfig:
    """Returns the config in a file, or of a released size with the vocabulary of `vocab_file`."""
    if path_or_size not in SIZES or files.is_file(path_or_size):
        if "/" not in path_or_size and not files.exists(path_or_size):
            raise InputError(
                f"There is no file {path_or_size}. bert_config_file must be a "
                f"bert_config.json or one of the sizes {', '.join(SIZES)}."
            )
        return read_config(path_or_size)

    if vocab_file is None:
        raise InputError(
            f"bert_config_file={path_or_size} needs vocab_file, which gives the size "
            "of the vocabulary."
        )
    return BertConfig.named(path_or_size, len(load_vocabulary(os.fspath(vocab_file))))


def _read_from_hub(path: str) -> CheckpointContents:
    huggingface_hub = import_package("huggingface_hub", "hub", path)
    name, _, revision = path.removeprefix(_HUB).partition("@")
    entries = DIALECTS.values()
    patterns = [glob for each in entries for glob in each.hub_files]
    alternatives = [glob for each in entries for glob in each.hub_alternatives]

    # Files of other formats are downloaded only if they are needed.
    for downloaded in (patterns, *([*patterns, each] for each in alternatives)):
        try:
            folder = huggingface_hub.snapshot_download(
                name, revision=revision or None, allow_patterns=downloaded
            )
        except Exception as error:  # the hub client raises many types of exceptions
            message = " ".join(str(error).split())
            raise InputError(f"{path} cannot be downloaded: {message}") from error
        names = gfile.listdir(folder)
        if checkpoint_formats.marks_in(
            name.removesuffix(".index.json") for name in names
        ):
            break
    else:
        raise InputError(
            f"{path} has no weights that can be read: no model.safetensors, "
            "pytorch_model.bin or tf_model.h5. Give another model, or convert this one "
            "with the program that wrote it."
        )

    if downloaded != patterns:
        _LOG.warning(
            "warning: %s has no model.safetensors, so %s was downloaded. A pull request with "
            "safetensors, if the model has one, is %s%s@refs/pr/N, where N is its "
            "number.",
            *(path, downloaded[-1], _HUB, name),
        )
    return dataclasses.replace(_read(folder, slots=False), source=path)


def _read_archive(path: str, slots: bool) -> CheckpointContents:
    """Reads the checkpoint in a `.zip` or `.tar.gz` file."""
    files.check_is_file(path)
    with files.temporary_folder() as folder:
        _extract(path, folder)

        # Exactly one folder of the archive has weights. Its subfolders may have further
        # weights, such as the variables of a SavedModel.
        folders = [
            (root, names)
            for root, _, names in gfile.walk(folder)
            if names and "__MACOSX" not in root
        ]
        candidates = [
            root for root, names in folders if checkpoint_formats.has_weights(names)
        ]
        candidates = [
            root for root in candidates if posixpath.dirname(root) not in candidates
        ]
        if not candidates and len(folders) == 1:  # so that the message is about it
            candidates = [folders[0][0]]
        if len(candidates) != 1:
            raise InputError(
                f"{path} must hold one checkpoint. Found: {len(candidates)}."
            )

        # Messages name the archive, not the temporary folder.
        try:
            contents = _read(candidates[0], slots)
        except InputError as error:
            raise InputError(str(error).replace(folder, path)) from error

    casing = contents.do_lower_case
    if casing is None:
        casing = released_casing(posixpath.basename(path))
    return dataclasses.replace(contents, source=path, do_lower_case=casing)


def _extract(path: str, folder: str) -> None:
    """Extracts an archive; raises `InputError` for links, and for names outside of `folder`."""
    is_zip = path.endswith(checkpoint_formats.ZIP_FILES)
    with (
        files.explain_read_errors(path, f" as a {'zip' if is_zip else 'tar.gz'} file"),
        gfile.GFile(path, "rb") as file,
    ):
        if is_zip:
            with zipfile.ZipFile(file) as archive:
                for entry in archive.infolist():
                    is_link = stat.S_ISLNK(entry.external_attr >> 16)
                    _check_name(path, entry.filename, is_link)
                archive.extractall(folder)
            return

        with tarfile.open(fileobj=file, mode="r:gz") as tar:
            members = [entry for entry in tar.getmembers() if not entry.isdir()]
            for member in members:
                _check_name(path, member.name, not member.isreg())
            tar.extractall(folder, members)


def _check_name(path: str, name: str, is_link: bool) -> None:
    if is_link or posixpath.isabs(name) or ".." in name.split("/"):
        raise InputError(
            f"{path} contains {name}, which leads outside of the archive or is a link. "
            "Get the file again from its source."
        )


def _read(path: str, slots: bool) -> CheckpointContents:
    """Reads a checkpoint in the first dialect of `DIALECTS` that recognizes the path."""
    path = checkpoint_formats.folder_of(path)
    for name in DIALECTS:
        contents: CheckpointContents | None = module_of(name).read(path, slots)
        if contents is not None:
            return contents
    raise InputError(_reason_for_no_checkpoint(path))


def module_of(dialect: str) -> ModuleType:
    """Returns the module that reads a dialect and, if bert-tf can write it, writes it."""
    return importlib.import_module(f"bert_tf.conversion.{DIALECTS[dialect].module}")


def _reason_for_no_checkpoint(path: str) -> str:
    is_folder = gfile.isdir(path)
    names = [name.rstrip("/") for name in gfile.listdir(path)] if is_folder else []
    if "saved_model.pb" in names:
        return (
            f"{path} is an exported SavedModel. Give the checkpoint that it was "
            "exported from."
        )

    # Formats of other programs.
    paths = [path, *(posixpath.join(path, name) for name in names)]
    for entry in paths:
        if entry.endswith(".msgpack"):
            return (
                f"{entry} has weights of Flax, which are not read. Convert them with "
                "transformers 4: FlaxBertModel.from_pretrained(folder).save_pretrained("
                "new_folder, safe_serialization=True), and give the new folder."
            )

    if OLD_FOLDER in names:
        return (
            f"{path} is a folder of an old version of sentence-transformers. Give the "
            f"folder {OLD_FOLDER} in it."
        )
    if "model.weights.json" in names:
        return (
            f"{path} is a preset of keras-hub whose weights are divided into several "
            "files, which are not read. Load it with keras-hub, and save it with a "
            "larger max_shard_size of save_to_preset."
        )

    for entry in paths:
        if entry.endswith(".weights.h5"):
            return (
                f"{entry} has weights of Keras, but not the architecture. Give a "
                ".keras file, or a preset of keras-hub: the folder that "
                "save_to_preset wrote, with config.json and model.weights.h5."
            )

    if path.endswith(".keras"):
        return (
            f"{path} is a file of Keras. Load it with bert_tf.load in Python, and "
            "write a checkpoint with bert_tf.save_checkpoint."
        )

    if gfile.exists(path) and not is_folder:
        return (
            f"{path} is not the file of a checkpoint. Give the folder that the program "
            "wrote, or put the file into a folder of its own as model.safetensors, "
            "with config.json."
        )

    # A missing file, or the name of a model of the hub.
    if not is_folder:
        prefix = path.removesuffix(".index")
        of_hub = f" For a model of the Hugging Face hub, give {_HUB}{path}."
        return (
            f"There is no checkpoint {prefix}: no folder and no {prefix}.index exists."
            f"{of_hub * bool(re.fullmatch(_HUB_NAME, path))}"
        )

    if not {"checkpoints", "training_config.json"}.isdisjoint(names):
        return (
            f"{path} is the folder of a training run, but holds no undamaged "
            "checkpoint. Copy it again from its source, or train again."
        )
    expected = checkpoint_formats.listed(entry.marks[0] for entry in DIALECTS.values())
    return f"{path} holds no checkpoint: it has no {expected}."
