"""The flags of the layers between the encoder and the output layer, and of a frozen encoder."""

import os
from typing import TYPE_CHECKING

from absl import flags

from bert_tf.errors import InputError
from bert_tf.head_config import FEATURE_LAYERS, HeadConfig
from bert_tf.program import config_flags
from bert_tf.run_scripts.flags import check_effect, run_model

if TYPE_CHECKING:
    from bert_tf.fine_tuning.feature_cache import FeatureSettings

FLAGS = flags.FLAGS
# --help then lists the flags of this module with the program's.
flags.disclaim_key_flags()
# The learning rate of fine-tuning is too low for a head with random weights on a frozen
# encoder.
LEARNING_RATE_OF_FEATURES = 1e-3
_CACHE_FLAGS = ("feature_layers", "feature_dtype")


def define_flags() -> None:
    """Defines the flags of the head."""
    config_flags.define(
        HeadConfig, without=("feature_layers",), flag_names={"kind": "head"}
    )


def define_feature_flags() -> None:
    """Defines the flags of a frozen encoder."""
    flags.DEFINE_enum(
        "approach",
        "fine_tuning",
        ["fine_tuning", "features"],
        "fine_tuning: train all weights. features: train the head only, on hidden "
        "states of the encoder of --init_checkpoint that are computed once. The "
        f"default of --learning_rate is then {LEARNING_RATE_OF_FEATURES}.",
    )
    config_flags.define(
        HeadConfig,
        ("feature_layers",),
        defaults={"feature_layers": "concat_last_four"},
        texts={
            "feature_layers": f"Hidden states for --approach=features, one of "
            f"{', '.join(FEATURE_LAYERS)}: the rows of table 7 of the paper. The weights of a sum "
            "are learned."
        },
    )
    flags.DEFINE_enum(
        "feature_dtype",
        "float16",
        ["float16", "float32"],
        "Dtype of the hidden states on disk, for --approach=features.",
    )


def trains_features() -> bool:
    """Returns whether the run trains a head on a frozen encoder."""
    return "approach" in FLAGS and FLAGS.approach == "features" and FLAGS.do_train


def head_config() -> HeadConfig:
    """Returns the layers of the head that a run trains.

    Raises:
        InputError: A flag is out of range, or has no effect with the other flags.
    """
    check_effect("head", "bilstm", ("lstm_layers", "lstm_size"))
    if "approach" in FLAGS:
        further = () if FLAGS.teacher else ("feature_cache_dir",)
        check_effect("approach", "features", (*_CACHE_FLAGS, *further))
        check_effect("approach", "fine_tuning", ("layer_decay", "recompute"))
    layers = FLAGS.feature_layers if trains_features() else None
    return HeadConfig(FLAGS.head, FLAGS.lstm_layers, FLAGS.lstm_size, layers)


def feature_settings() -> "FeatureSettings | None":
    """Returns the settings of the cache of hidden states.

    None if all weights are trained.

    Also sets the default of --learning_rate.

    Raises:
        InputError: A flag that is necessary is missing.
    """
    if not trains_features():
        return None
    from bert_tf.fine_tuning.feature_cache import FeatureSettings

    if not (FLAGS.init_checkpoint or FLAGS.init_layers or run_model().trained_run):
        raise InputError(
            "--approach=features needs --init_checkpoint: hidden states of a model "
            "with random weights are of no use."
        )
    if not FLAGS["learning_rate"].present:
        FLAGS.learning_rate = LEARNING_RATE_OF_FEATURES
    folder = FLAGS.feature_cache_dir or os.path.join(FLAGS.output_dir, "features")
    return FeatureSettings(folder, FLAGS.feature_dtype)
