"""Prints the losses of `fit` on one device and on two devices of a MirroredStrategy.

The argument is a kind of model, a key of `KINDS` in test_every_model.py.
"""

import json
import pathlib
import sys

import keras
import tensorflow as tf

sys.path[:0] = [
    str(pathlib.Path(__file__).parent),
    str(pathlib.Path(__file__).parents[1]),
    str(pathlib.Path(__file__).parents[2]),
]

# The devices must be set before the tests are imported, because they create tensors.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
import test_every_model as models  # noqa: E402

from bert_tf.config import BertConfig  # noqa: E402


def fit(kind):
    """Returns the loss of each step.

    With SGD and without dropout, it is that of one device.
    """
    keras.utils.set_random_seed(0)
    config = BertConfig.from_dict({
        **models.SMALL.to_dict(), "num_hidden_layers": 1, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    })  # fmt: skip
    arguments = {} if kind in ("encoder", "pretrainer", "mlm only", "span") else {
        "classifier_dropout": 0.0
    }  # fmt: skip
    model = models.KINDS[kind](config, seed=7, **arguments)
    # Four examples, so that each of the two devices gets two.
    optimizer = keras.optimizers.SGD(0.02)
    return models.fit(kind, model, optimizer, rows=[0, 1, 2, 0], epochs=3)


def main():
    one = fit(sys.argv[1])
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        two = fit(sys.argv[1])
    print(json.dumps([one, two]))


if __name__ == "__main__":
    main()
