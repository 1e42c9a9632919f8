"""Groups of flags that several mains share, and what is made of them."""

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import flags

from bert_tf import conversion, files
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.tokenization import (
    BertTokenizer,
    check_size,
    validate_case_matches_checkpoint,
)
from bert_tf.training import state
from bert_tf.training.config import PRECISIONS, STRATEGIES, RuntimeConfig, TrainingConfig
from bert_tf.training.state import ModelDescription
from bert_tf.weights import FACTS_FILE

FLAGS = flags.FLAGS
_TPU_NAMES = ("tpu_name", "tpu_zone", "gcp_project", "master")


def define_model_flags(checkpoint_help: str) -> None:
    """Flags that say which model. A main then adopts the key flags of this module."""
    flags.DEFINE_string(
        "bert_config_file", None,
        "bert_config.json with the architecture. Without it, the one beside --init_checkpoint.",
    )  # fmt: skip
    flags.DEFINE_string("init_checkpoint", None, checkpoint_help)
    flags.DEFINE_string(
        "vocab_file", None, "vocab.txt. Without it, the one beside --init_checkpoint."
    )
    flags.DEFINE_bool(
        "do_lower_case", True, "Whether the tokenizer lowers case and strips accents: true for "
        "uncased models, false for cased ones. Not given, a checkpoint of ours says it.",
    )  # fmt: skip


def define_training_flags() -> None:
    """Flags that say how to train. A main then adopts the key flags of this module."""
    flags.DEFINE_integer("train_batch_size", 32, "Examples in a step, in all.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples in a batch when evaluating.")
    flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "Steps between checkpoints.")
    flags.DEFINE_integer("keep_checkpoints", 2, "How many of the newest checkpoints stay.")
    flags.DEFINE_integer(
        "iterations_per_loop", 1000,
        "Most steps that run in the graph without coming back to Python. Fewer run where steps "
        "are slow, so that progress is seen.",
    )  # fmt: skip
    flags.DEFINE_integer("log_steps", 100, "Steps between entries in TensorBoard.")
    flags.DEFINE_integer("seed", 12345, "Of initial weights, dropout and the order of examples.")
    flags.DEFINE_enum(
        "precision", "float32", PRECISIONS,
        "bfloat16 computes activations in bfloat16, weights stay float32; faster on machines "
        "with bfloat16 instructions, slower on others.",
    )  # fmt: skip
    flags.DEFINE_bool("jit_compile", False, "Compile forward and backward pass with XLA.")
    flags.DEFINE_bool("overwrite", False, "Remove the run that is in --output_dir first.")
    flags.DEFINE_enum(
        "distribution_strategy", "one_device", STRATEGIES,
        "one_device, or mirrored over the GPUs of this machine.",
    )  # fmt: skip
    flags.DEFINE_integer("num_gpus", 0, "GPUs that mirrored uses; 0 means all.")
    flags.DEFINE_bool("use_tpu", False, "Must be false: this version does not train on TPUs.")
    for name in _TPU_NAMES:
        flags.DEFINE_string(name, None, "Of google-research/bert; has no effect without a TPU.")
    flags.DEFINE_integer("num_tpu_cores", 8, "Of google-research/bert; no effect without a TPU.")


def runtime_config(eval_steps: int = 0) -> RuntimeConfig:
    """How to compute, from the flags.

    Raises:
        InputError: A value cannot be.
    """
    if FLAGS.use_tpu:
        raise InputError(
            "--use_tpu=true was given, but this version does not train on TPUs. "
            "Leave it out, and see --distribution_strategy."
        )
    return RuntimeConfig(
        distribution_strategy=FLAGS.distribution_strategy,
        num_gpus=FLAGS.num_gpus,
        iterations_per_loop=FLAGS.iterations_per_loop,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        eval_steps=eval_steps,
        log_steps=FLAGS.log_steps,
        keep_checkpoints=FLAGS.keep_checkpoints,
        jit_compile=FLAGS.jit_compile,
    )


def training_config(
    num_train_steps: int, num_warmup_steps: int, data: Mapping[str, Any]
) -> TrainingConfig:
    """What defines the result, from the flags.

    Raises:
        InputError: A value cannot be.
    """
    return TrainingConfig(
        seed=FLAGS.seed,
        global_batch_size=FLAGS.train_batch_size,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
        learning_rate=FLAGS.learning_rate,
        precision=FLAGS.precision,
        data=data,
    )


def init_checkpoint() -> str | None:
    """--init_checkpoint; of a run's folder, its newest checkpoint."""
    return _newest(FLAGS.init_checkpoint)


@functools.cache
def _newest(path: str | None) -> str | None:
    if not path or path.startswith("hf://") or path.endswith(".zip"):
        return path
    return state.latest(path) or path


def beside_checkpoint(name: str) -> str | None:
    """The file of this name beside --init_checkpoint, or in it, if there is one."""
    checkpoint = init_checkpoint()
    if not checkpoint or checkpoint.startswith("hf://"):
        return None
    folders = (checkpoint, os.path.dirname(checkpoint))
    paths = [os.path.join(folder, name) for folder in folders]
    return next((path for path in paths if tf.io.gfile.exists(path)), None)


def bert_config() -> BertConfig:
    """The architecture, from --bert_config_file or from beside --init_checkpoint.

    Raises:
        InputError: There is none, or it cannot be.
    """
    path = FLAGS.bert_config_file or beside_checkpoint("bert_config.json")
    if path is None:
        raise InputError(
            "Which architecture? Give --bert_config_file, or an --init_checkpoint with a "
            "bert_config.json beside it."
        )
    config = BertConfig.from_json(files.read_text(path), path)
    if config.extra:
        # A misspelt key would leave a default in place without a word.
        print(f"{path}: keys that BertConfig lacks: {', '.join(config.extra)}.", file=sys.stderr)
    return config


def vocab_file() -> str | None:
    """The vocabulary, from --vocab_file or from beside --init_checkpoint."""
    return FLAGS.vocab_file or beside_checkpoint("vocab.txt")


def tokenizer(config: BertConfig) -> BertTokenizer:
    """The tokenizer, checked against the model and the checkpoint.

    Raises:
        InputError: There is no vocabulary, or it or its casing is not that of the model.
    """
    path = vocab_file()
    if path is None:
        raise InputError(
            "Which vocabulary? Give --vocab_file, or an --init_checkpoint with a vocab.txt "
            "beside it."
        )
    made = BertTokenizer(path, do_lower_case=do_lower_case())
    check_size(made.vocabulary, config.vocab_size, path)
    expected = _checkpoint_facts().get("vocabulary_sha256")
    if expected not in (None, made.vocabulary_sha256):
        raise InputError(
            f"{path} has the SHA-256 {made.vocabulary_sha256[:12]}, but {init_checkpoint()} was "
            f"trained with a vocabulary of {expected[:12]}. Leave --vocab_file out to take that."
        )
    return made


def do_lower_case() -> bool:
    """--do_lower_case; where it is not given, the casing of --init_checkpoint if that is known.

    Raises:
        InputError: The flag and the checkpoint differ.
    """
    trained = _checkpoint_facts().get("do_lower_case")
    if not FLAGS["do_lower_case"].present and trained is not None:
        return trained
    if trained not in (None, FLAGS.do_lower_case):
        raise InputError(
            f"--do_lower_case={FLAGS.do_lower_case} was given, but {init_checkpoint()} was "
            f"trained with do_lower_case={trained}. Leave the flag out."
        )
    validate_case_matches_checkpoint(FLAGS.do_lower_case, FLAGS.init_checkpoint)
    return FLAGS.do_lower_case


def _checkpoint_facts() -> dict[str, Any]:
    """What a checkpoint of ours says of itself."""
    path = beside_checkpoint(FACTS_FILE)
    return json.loads(files.read_text(path)) if path else {}


def check_length(max_seq_length: int, config: BertConfig) -> None:
    """Checks --max_seq_length against the model.

    Raises:
        InputError: Longer than the model's positions.
    """
    if max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length={max_seq_length} is over the model's max_position_embeddings "
            f"({config.max_position_embeddings}). Give at most {config.max_position_embeddings}."
        )


def model_description(
    config: BertConfig, tokenizer: BertTokenizer | None, **extra: Any
) -> ModelDescription:
    """What travels with the weights."""
    return ModelDescription(
        config=config.to_dict(),
        vocabulary=tokenizer.vocabulary if tokenizer else None,
        do_lower_case=tokenizer.do_lower_case if tokenizer else None,
        extra=extra,
    )


def initializer() -> Callable[[Any], None] | None:
    """What puts the weights of --init_checkpoint into an objective's model, and says which.

    Raises:
        InputError: The checkpoint is missing or cannot be read.
    """
    path = init_checkpoint()
    if not path:
        return None
    read = conversion.read_weights(path)

    def initialize(objective: Any) -> None:
        print(f"{path}: {conversion.assign(objective.model, read)}", file=sys.stderr)

    return initialize
