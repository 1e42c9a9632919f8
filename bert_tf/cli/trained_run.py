"""Chooses between a flag and the recorded value of a trained run."""

import functools
from typing import TYPE_CHECKING, Any

from absl import flags

from bert_tf.program import config_flags

if TYPE_CHECKING:
    from bert_tf.runs.run_model import RunModel

FLAGS = flags.FLAGS


def model_flags() -> dict[str, Any]:
    """Returns the values of the flags of `shared_flags.define_model_flags`."""
    names = ("init_checkpoint", "bert_config_file", "vocab_file", "do_lower_case")
    values = {name: FLAGS[name].value for name in names}
    if not FLAGS["do_lower_case"].present:
        values["do_lower_case"] = None  # the casing of the checkpoint
    return values


@functools.cache
def run_model() -> "RunModel":
    """Returns the model of the flags of `shared_flags.define_model_flags`.

    Values that are not given are taken from the run in --output_dir, if the program has
    the flag --output_dir.
    """
    from bert_tf.runs.run_model import RunModel

    return config_flags.build(RunModel, **model_flags())


def values_or_trained(*names: str) -> dict[str, Any]:
    """Returns the values of flags by name; a flag not given has the trained model's value."""
    values = {name: FLAGS[name].value for name in names}
    if missing := [name for name in names if not FLAGS[name].present]:
        facts = run_model().facts
        values |= {name: facts.get(name, values[name]) for name in missing}
    return values
