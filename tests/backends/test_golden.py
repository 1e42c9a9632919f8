"""The models compared with those of other programs, on the backend of KERAS_BACKEND."""

import keras
import numpy as np
import pytest
from golden_checkpoints import GOLDEN, GOOGLE, HUGGING_FACE, google_config

import bert_tf

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "tensorflow",
    reason="set KERAS_BACKEND=jax or KERAS_BACKEND=torch",
)
INPUTS = ("input_ids", "input_mask", "segment_ids")
cross_entropy = keras.losses.SparseCategoricalCrossentropy
# For each folder of `HUGGING_FACE`: the model, and its outputs by their name there.
MODELS = {
    "pretraining": (
        bert_tf.BertPretrainer,
        {
            "masked_lm_logits": "prediction_logits",
            "next_sentence_logits": "seq_relationship_logits",
        },
    ),
    "sequence_classification": (bert_tf.BertClassifier, {"logits": "logits"}),
    "token_classification": (bert_tf.BertTagger, {"logits": "logits"}),
    "multiple_choice": (bert_tf.BertMultipleChoice, {"logits": "logits"}),
    "question_answering": (
        bert_tf.BertSpanPredictor,
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    "encoder": (bert_tf.BertEncoder, {"sequence_output": "last_hidden_state"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_equal_those_of_transformers(name):
    model_class, names = MODELS[name]
    expected = np.load(HUGGING_FACE / name / "expected.npz")
    model = bert_tf.load(HUGGING_FACE / name).model(model_class)
    found = model({name: expected[name].astype(np.int32) for name in INPUTS})
    for own, other in names.items():
        values = keras.ops.convert_to_numpy(found[own])
        np.testing.assert_allclose(values, expected[other], atol=1e-5, err_msg=own)


def load(model, checkpoint):
    weights = bert_tf.load(checkpoint, bert_config_file=GOOGLE / "bert_config.json")
    weights.assign(model)


def compile_released(model, trajectory, losses):
    schedule = bert_tf.WarmupSchedule(
        float(trajectory["learning_rate"]),
        int(trajectory["num_train_steps"]),
        int(trajectory["num_warmup_steps"]),
    )
    model.compile(bert_tf.AdamWeightDecay(schedule), loss=losses)


def loss_of_step(model, *data):
    """Trains on one batch; returns the loss before the update."""
    model.reset_metrics()
    return float(model.train_on_batch(*data, return_dict=True)["loss"])


def compare_weights(model, expected, atol=1e-4):
    """Compares the weights of two models."""
    pairs = zip(model.trainable_variables, expected.trainable_variables, strict=True)
    for found, other in pairs:
        values = map(keras.ops.convert_to_numpy, (found, other))
        np.testing.assert_allclose(*values, rtol=0, atol=atol, err_msg=found.path)


def test_pretraining_through_fit_follows_google_research_bert():
    trajectory = dict(np.load(GOOGLE / "trajectory.npz"))
    model = bert_tf.BertPretrainer(google_config())
    load(model, GOOGLE / "init/bert_model.ckpt")
    masked_lm = cross_entropy(from_logits=True, reduction="mean_with_sample_weight")
    next_sentence = cross_entropy(from_logits=True)
    losses = {"masked_lm_logits": masked_lm, "next_sentence_logits": next_sentence}
    compile_released(model, trajectory, losses)

    inputs = {name: trajectory[name] for name in (*INPUTS, "masked_lm_positions")}
    targets = {
        "masked_lm_logits": trajectory["masked_lm_ids"],
        "next_sentence_logits": trajectory["next_sentence_labels"],
    }
    weights = {
        "masked_lm_logits": trajectory["masked_lm_weights"],
        "next_sentence_logits": np.ones_like(targets["next_sentence_logits"]),
    }

    expected = bert_tf.BertPretrainer(google_config())
    for step, (_, _, loss) in enumerate(trajectory["losses"]):
        data = ({n: v[step] for n, v in d.items()} for d in (inputs, targets, weights))
        assert loss_of_step(model, *data) == pytest.approx(loss, abs=1e-4)
        if step + 1 in (1, 10, 30):
            load(expected, GOOGLE / f"step{step + 1}/model.ckpt-{step + 1}")
            compare_weights(model, expected)


def test_a_classifier_follows_google_research_bert():
    """Without sparse gradients, the norm for clipping counts the sums of the rows."""
    folder = GOLDEN / "google_classifier"
    trajectory = dict(np.load(folder / "trajectory.npz"))
    options = {"num_labels": 3, "classifier_dropout": 0.0}
    model = bert_tf.BertClassifier(google_config(), **options)
    load(model, folder / "init/model.ckpt")
    compile_released(model, trajectory, {"logits": cross_entropy(from_logits=True)})

    for step, loss in enumerate(trajectory["losses"]):
        inputs = {name: trajectory[name][step] for name in INPUTS}
        targets = {"logits": trajectory["label_ids"][step]}
        assert loss_of_step(model, inputs, targets) == pytest.approx(loss, abs=1e-4)
    expected = bert_tf.BertClassifier(google_config(), **options)
    load(expected, folder / "step20/model.ckpt-20")
    compare_weights(model, expected, atol=5e-4)
