"""Groups of flags that several mains share, and what is made of them."""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from absl import flags

from bert_tf import conversion
from bert_tf.config import BertConfig
from bert_tf.conversion import Weights
from bert_tf.errors import InputError
from bert_tf.tokenization import (
    BertTokenizer,
    check_size,
    validate_case_matches_checkpoint,
)
from bert_tf.tokenization.vocabulary import check_vocabulary
from bert_tf.training.config import PRECISIONS, STRATEGIES, RuntimeConfig, TrainingConfig
from bert_tf.training.state import ModelDescription
from bert_tf.weights import vocabulary_sha256

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


def checkpoint() -> Weights | None:
    """What --init_checkpoint holds, with the config and the vocabulary found beside it; read once.

    Raises:
        InputError: It is missing or cannot be read.
    """
    return _read(FLAGS.init_checkpoint) if FLAGS.init_checkpoint else None


_read = functools.cache(conversion.read_weights)


def bert_config() -> BertConfig:
    """The architecture, from --bert_config_file or from beside --init_checkpoint.

    Raises:
        InputError: There is none, or it cannot be.
    """
    found = checkpoint()
    if FLAGS.bert_config_file:
        source, config = FLAGS.bert_config_file, conversion.read_config(FLAGS.bert_config_file)
    elif found is not None and found.config is not None:
        source, config = found.source, found.config
    else:
        raise InputError(
            "Which architecture? Give --bert_config_file, or an --init_checkpoint with a "
            "bert_config.json beside it."
        )
    if config.extra:
        # A misspelt key would leave a default in place without a word.
        print(f"{source}: keys that BertConfig lacks: {', '.join(config.extra)}.", file=sys.stderr)
    return config


def vocab_file() -> str | list[str] | None:
    """The vocabulary: the path in --vocab_file, or the entries found beside --init_checkpoint."""
    found = checkpoint()
    return FLAGS.vocab_file or (found.vocabulary if found else None)


def tokenizer(config: BertConfig) -> BertTokenizer:
    """The tokenizer, checked against the model and the checkpoint.

    Raises:
        InputError: There is no vocabulary, or it or its casing is not that of the model.
    """
    vocabulary, found = vocab_file(), checkpoint()
    if vocabulary is None:
        raise InputError(
            "Which vocabulary? Give --vocab_file, or an --init_checkpoint with a vocab.txt "
            "beside it."
        )
    source = FLAGS.vocab_file or f"the vocabulary of {FLAGS.init_checkpoint}"
    if isinstance(vocabulary, list):
        check_vocabulary(vocabulary, source)
    made = BertTokenizer(vocabulary, do_lower_case=do_lower_case())
    check_size(made.vocabulary, config.vocab_size, source)
    if found and found.dialect == "bert-tf" and found.vocabulary not in (None, made.vocabulary):
        raise InputError(
            f"{source} has the SHA-256 {made.vocabulary_sha256[:12]}, but {found.source} was "
            f"trained with a vocabulary of {vocabulary_sha256(found.vocabulary)[:12]}. Leave "
            "--vocab_file out to take that."
        )
    return made


def do_lower_case() -> bool:
    """--do_lower_case; where it is not given, the casing of --init_checkpoint if that is known.

    Raises:
        InputError: The flag and the checkpoint differ.
    """
    found = checkpoint()
    if found and found.do_lower_case is not None:
        if not FLAGS["do_lower_case"].present:
            return found.do_lower_case
        if found.dialect == "bert-tf" and found.do_lower_case != FLAGS.do_lower_case:
            raise InputError(
                f"--do_lower_case={FLAGS.do_lower_case} was given, but {found.source} was "
                f"trained with do_lower_case={found.do_lower_case}. Leave the flag out."
            )
    validate_case_matches_checkpoint(FLAGS.do_lower_case, _released_path())
    return FLAGS.do_lower_case


def _released_path() -> str | None:
    """--init_checkpoint; of a released .zip, the path that it would have when unpacked."""
    path = FLAGS.init_checkpoint
    return f"{path.removesuffix('.zip')}/" if path else path


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
    read = checkpoint()
    if read is None:
        return None

    def initialize(objective: Any) -> None:
        print(f"{read.source}: {conversion.assign(objective.model, read)}", file=sys.stderr)

    return initialize
