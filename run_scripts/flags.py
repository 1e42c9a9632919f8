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
from bert_tf.training.config import (
    OPTIMIZERS,
    PRECISIONS,
    SCHEDULES,
    STRATEGIES,
    RuntimeConfig,
    TrainingConfig,
)
from bert_tf.training.state import ModelDescription
from bert_tf.weights import vocabulary_sha256

FLAGS = flags.FLAGS


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
    flags.DEFINE_integer(
        "eval_steps", 0, "Steps between evaluations on held-out examples; 0 means at the end only. "
        "The weights of the best one are kept in best/.",
    )  # fmt: skip
    flags.DEFINE_integer(
        "early_stopping_evals", 0, "Stop after this many evaluations in a row without a better "
        "one, and end with the best weights; 0 trains to the end. Needs --eval_steps.",
    )  # fmt: skip
    flags.DEFINE_integer(
        "stop_at_step", 0, "Stop when this many steps are done, as if all were; 0 goes on to the "
        "end of the schedule. The same command with more steps goes on from there.",
    )  # fmt: skip
    flags.DEFINE_integer("seed", 12345, "Of initial weights, dropout and the order of examples.")
    flags.DEFINE_bool("overwrite", False, "Remove the run that is in --output_dir first.")
    _define_optimizer_flags()
    _define_computing_flags()


def _define_optimizer_flags() -> None:
    flags.DEFINE_enum(
        "optimizer", "adam_weight_decay", OPTIMIZERS, "adam_weight_decay: the released one, Adam "
        "without bias correction. adamw: with it. lamb: for large batches.",
    )  # fmt: skip
    flags.DEFINE_enum(
        "schedule", "released", SCHEDULES, "After warmup. released: linear decay counted from step "
        "0. linear, cosine: from the peak to 0. constant: the peak.",
    )  # fmt: skip
    flags.DEFINE_float("weight_decay_rate", 0.01, "Decay of weights but LayerNorm and biases.")
    flags.DEFINE_float("clip_norm", 1.0, "Global norm that gradients are scaled down to.")
    flags.DEFINE_float(
        "layer_decay", 1.0, "Each layer learns at this many times the rate of the one above it."
    )
    flags.DEFINE_float(
        "ema_decay", 0.0, "Average the weights over steps with this decay, such as 0.999, and hand "
        "the average on; 0 does not.",
    )  # fmt: skip


def _define_computing_flags() -> None:
    flags.DEFINE_enum(
        "precision", "float32", PRECISIONS,
        "bfloat16 and float16 compute activations so, weights stay float32; faster on machines "
        "with instructions for them, slower on others. float16 scales the loss.",
    )  # fmt: skip
    flags.DEFINE_bool("jit_compile", False, "Compile forward and backward pass with XLA.")
    flags.DEFINE_integer(
        "gradient_accumulation_steps", 1, "Parts that a device's share of a batch is computed in, "
        "one after the other, to save memory.",
    )  # fmt: skip
    flags.DEFINE_bool(
        "recompute", False, "Compute activations again on the way back instead of keeping them: "
        "a third more work, far less memory.",
    )  # fmt: skip
    flags.DEFINE_bool(
        "deterministic", False, "The same bits each time on the same machine and devices."
    )
    flags.DEFINE_bool(
        "debug_nans", False, "Run step by step, and name the layer in which a number stops being "
        "finite.",
    )  # fmt: skip
    flags.DEFINE_list(
        "profile_steps", None, "First and last step of a profile for TensorBoard, such as 100,110."
    )
    flags.DEFINE_enum(
        "distribution_strategy", "one_device", STRATEGIES,
        "one_device; mirrored over the GPUs of this machine; multi_worker_mirrored over the "
        "machines in the environment variable TF_CONFIG; tpu.",
    )  # fmt: skip
    flags.DEFINE_integer("num_gpus", 0, "GPUs that mirrored uses; 0 means all.")
    flags.DEFINE_bool("use_tpu", False, "The same as --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "TPU to use; without it, that of this machine.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the TPU.")
    flags.DEFINE_string("gcp_project", None, "Project of the TPU.")
    flags.DEFINE_string("master", None, "Of google-research/bert; has no effect.")
    flags.DEFINE_integer("num_tpu_cores", 8, "Of google-research/bert; all cores are used.")


def runtime_config() -> RuntimeConfig:
    """How to compute, from the flags.

    Raises:
        InputError: A value cannot be.
    """
    return RuntimeConfig(
        distribution_strategy="tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy,
        num_gpus=FLAGS.num_gpus,
        tpu_name=FLAGS.tpu_name or "",
        tpu_zone=FLAGS.tpu_zone or "",
        gcp_project=FLAGS.gcp_project or "",
        gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
        iterations_per_loop=FLAGS.iterations_per_loop,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        eval_steps=FLAGS.eval_steps,
        log_steps=FLAGS.log_steps,
        keep_checkpoints=FLAGS.keep_checkpoints,
        stop_at_step=FLAGS.stop_at_step,
        early_stopping_evals=FLAGS.early_stopping_evals,
        jit_compile=FLAGS.jit_compile,
        recompute=FLAGS.recompute,
        deterministic=FLAGS.deterministic,
        debug_nans=FLAGS.debug_nans,
        profile_steps=_profile_steps(),
    )


def _profile_steps() -> tuple[int, int] | None:
    if not FLAGS.profile_steps:
        return None
    try:
        first, last = map(int, FLAGS.profile_steps)
    except ValueError as error:
        raise InputError(
            "--profile_steps needs two whole numbers, such as 100,110. "
            f"Received: {','.join(FLAGS.profile_steps)}."
        ) from error
    return first, last


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
        optimizer=FLAGS.optimizer,
        schedule=FLAGS.schedule,
        weight_decay_rate=FLAGS.weight_decay_rate,
        clip_norm=FLAGS.clip_norm,
        layer_decay=FLAGS.layer_decay,
        ema_decay=FLAGS.ema_decay,
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
        # What a folder of others says of its tokenizer may be wrong, and the flag puts it right.
        if found.dialect != "hugging_face" and found.do_lower_case != FLAGS.do_lower_case:
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
