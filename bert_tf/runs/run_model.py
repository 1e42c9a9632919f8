"""`RunModel`: the model that a program starts from or uses."""

import dataclasses
import functools
import glob
import logging
import os
from typing import Any

from bert_tf.config import SIZES
from bert_tf.pretrained import Pretrained, read_pretrained
from bert_tf.training.lifecycle.run_folder import RunFolder

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RunModel:
    """The model that a program starts from or uses: of a checkpoint, or of a run.

    Checkpoints are read when they are needed, and only once. A run that has saved a
    checkpoint does not need its initial files any more: if one of them is missing, the
    file in the folder of the run is used instead, with a warning.

    Attributes:
        init_checkpoint: The checkpoint of the initial weights, or None.
        bert_config_file: The architecture: a file or the name of a size. None for the
            architecture of the checkpoint.
        vocab_file: The vocabulary. None for the vocabulary of the checkpoint.
        do_lower_case: Whether the tokenizer lower-cases text. None for the setting of
            the checkpoint.
        output_dir: The folder of the run; None for a program without a run.
        do_train: Whether the program trains.
        overwrite: Whether the program removes an earlier run in `output_dir`.
        checkpoint_layers: The Transformer blocks of `init_checkpoint` that the model
            has, from 0; () for all.
    """

    init_checkpoint: str | None = None
    bert_config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    output_dir: str | None = None
    do_train: bool = False
    overwrite: bool = False
    checkpoint_layers: tuple[int, ...] = ()

    @functools.cached_property
    def trained_run(self) -> str | None:
        """The output folder, if it has a checkpoint that this run resumes or uses."""
        if not self.output_dir:
            return None
        folder = RunFolder(self.output_dir, overwrite=self.do_train and self.overwrite)
        return folder.path if folder.checkpoint_to_resume() else None

    @functools.cached_property
    def pretrained(self) -> Pretrained:
        """The model of `init_checkpoint`; without it, of `bert_config_file` or of the run."""
        checkpoint = self._existing["init_checkpoint"]
        if not checkpoint and not (
            self.do_train and self._existing["bert_config_file"]
        ):
            checkpoint = self.trained_run
        return self._read(checkpoint)

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """Saved values about the model that is used, such as labels; {} if the program trains."""
        checkpoint = None if self.do_train else self.trained_run or self.init_checkpoint
        if not checkpoint:
            return {}
        contents = self._read(checkpoint).contents
        return dict(contents.facts) if contents else {}

    @functools.cached_property
    def recorded_data(self) -> dict[str, Any]:
        """The values that identify the data of the run to resume; {} without one."""
        run = self.trained_run
        return RunFolder(run).read_settings().get("data", {}) if run else {}

    @functools.cached_property
    def initial_weights(self) -> str | None:
        """Text that identifies the initial weights of the training; None if random.

        If a run is resumed and the initial weights are missing, the text is the one in
        the settings of the run.
        """
        if not self.do_train:
            return None
        checkpoint = self._existing["init_checkpoint"]
        if self.trained_run:
            recorded = self.recorded_data.get("init_checkpoint")
            # A wrong path: the run began with random weights.
            if not checkpoint and self.init_checkpoint and recorded is None:
                return self.init_checkpoint
            # Earlier versions recorded the path, some of them the absolute one.
            absolute = os.path.join(os.path.abspath(checkpoint or ""), "")
            if not checkpoint or recorded in (checkpoint, absolute):
                return recorded

        contents = self.pretrained.contents if checkpoint else None
        return f"weights with SHA-256 {contents.sha256()}" if contents else None

    @functools.cached_property
    def _existing(self) -> dict[str, str | None]:
        """The paths by name; None for a missing file that a file of the run replaces."""
        names = ("init_checkpoint", "bert_config_file", "vocab_file")
        paths = {name: getattr(self, name) for name in names}
        for name, path in paths.items():
            if (
                not path
                or "://" in path
                or path in SIZES
                or glob.glob(glob.escape(path) + "*")
            ):
                continue
            # If no file of the run replaces it, reading it reports the problem.
            needed = name == "init_checkpoint" and self.checkpoint_layers
            if self.trained_run and not needed:
                _LOGGER.warning(
                    "warning: there is no %s; the run in %s continues without it.",
                    path,
                    self.trained_run,
                )
                paths[name] = None
        return paths

    @functools.cached_property
    def _models(self) -> dict[str | None, Pretrained]:
        return {}

    def _read(self, checkpoint: str | None) -> Pretrained:
        if checkpoint not in self._models:
            pretrained = read_pretrained(
                checkpoint,
                self._existing["bert_config_file"],
                self._existing["vocab_file"],
                self.do_lower_case,
            )
            if self.checkpoint_layers and checkpoint == self.init_checkpoint:
                pretrained = pretrained.with_layers(self.checkpoint_layers)
            self._models[checkpoint] = pretrained
        return self._models[checkpoint]
