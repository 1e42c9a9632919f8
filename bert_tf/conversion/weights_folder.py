"""The dialect "bert-tf": weights folders, training checkpoints, folders of runs."""

import posixpath
from typing import Any

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.storage import files, safetensors_format, weights
from bert_tf.storage.files import find_file
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.lifecycle.run_state import (
    OPTIMIZER_FILE,
    check_checkpoint,
    is_checkpoint,
)

_SLOTS = ("/adam_m", "/adam_v")


def read(path: str, slots: bool) -> CheckpointContents | None:
    """Reads a weights folder, a training checkpoint or the output folder of a run.

    In the output folder of a run, the newest checkpoint is read, or the weights of the
    best evaluation if the run used early stopping. The best weights have no slots, so
    with `slots` the newest checkpoint is read in any case. Returns None if the path is
    not a folder that bert-tf wrote.
    """
    folder: str | None = path
    if weights.is_weights_folder(path):
        if is_checkpoint(path):
            check_checkpoint(path)
    else:
        run = RunFolder(path)
        folder = run.latest_checkpoint() if slots else run.best_or_latest_checkpoint()

    if folder is None:
        return None

    for name in (weights.FACTS_FILE, weights.CONFIG_FILE, weights.VOCABULARY_FILE):
        find_file(folder, name)  # refuses links that lead out of the folder

    contents = weights.read_weights_folder(folder)

    optimizer_path = posixpath.join(folder, OPTIMIZER_FILE)
    optimizer: dict[str, Any] = {}
    if slots and files.exists(optimizer_path):
        optimizer = safetensors_format.from_safetensors(
            files.read_bytes(optimizer_path), optimizer_path
        )

    return CheckpointContents(
        source=folder,
        dialect="bert-tf",
        arrays=contents.arrays,
        config=BertConfig.from_dict(
            contents.config, posixpath.join(folder, weights.CONFIG_FILE)
        ),
        vocabulary=contents.vocabulary,
        do_lower_case=contents.do_lower_case,
        facts={key: value for key, value in contents.facts.items() if key != "step"},
        slots={
            name: array for name, array in optimizer.items() if name.endswith(_SLOTS)
        },
        global_step=contents.facts.get("step"),
    )


def write(folder: str, contents: CheckpointContents) -> str:
    """Writes a weights folder without slots into an empty folder, and returns `folder`."""
    step = {} if contents.global_step is None else {"step": contents.global_step}
    weights.write_into(
        folder,
        contents.arrays,
        config=contents.require_config().to_dict(),
        vocabulary=contents.vocabulary,
        do_lower_case=contents.do_lower_case,
        facts={**contents.facts, **step},
    )
    return folder
