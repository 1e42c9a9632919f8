"""From a checkpoint of another library to an answer: training, export, prediction."""

import json

import pytest
from run_programs import run_well

# The folders in golden/foreign_checkpoints, and further flags.
FORMATS = {
    "pytorch_bin": "pytorch_model_bin/zip_pretraining",
    "pytorch_legacy_bin": "pytorch_model_bin/legacy_pretraining",
    "tf_h5": "tf_model_h5/TFBertModel",
    "tf_safetensors": "tf_safetensors/TFBertForPreTraining",
    "flax_safetensors": "flax_safetensors/FlaxBertModel",
    "keras_hub_preset": "keras_hub/backbone",
    "keras_hub_file": "keras_hub/dot_keras/classifier.keras",
    "tensorflow_hub": "tfhub/encoder",
    "model_garden": "model_garden_heads/pretrainer_training/ckpt-1",
}
SCRIPTS = "bert_tf.run_scripts"
TRAIN = (
    "--task_name=custom --data_dir=. --output_dir=out --do_train --do_predict "
    "--max_seq_length=16 --train_batch_size=4 --num_train_epochs=2 --learning_rate=1e-3"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_is_trained_exported_and_asked(test_data, here, name):
    golden = test_data / "golden/foreign_checkpoints"
    rows = [("good film", "good"), ("bad, not a film", "bad")] * 8
    text = "\n".join(f"{text}\t{label}" for text, label in rows)
    for split in ("train", "test"):
        (here / f"{split}.tsv").write_text(f"sentence\tlabel\n{text}\n")

    vocabulary = ""
    if name == "flax_safetensors":  # which has no vocabulary
        vocabulary = f" --vocab_file={golden / 'tf_model_h5/TFBertModel/vocab.txt'}"
    start = f"--init_checkpoint={golden / FORMATS[name]}{vocabulary}"
    run_well(f"{SCRIPTS}.run_classifier", f"{TRAIN} {start}")
    run_well(f"{SCRIPTS}.export_model", "--checkpoint=out --export_dir=served")
    (asked,) = run_well(
        f"{SCRIPTS}.predict",
        "--model=served --format=jsonl --text='good film' --text='bad, not a film'",
    )

    # The run's predictions are those of the exported model.
    predictions = (here / "out/test_results.tsv").read_text().splitlines()[:2]
    expected = [[float(each) for each in line.split("\t")] for line in predictions]
    answers = [json.loads(line) for line in asked.out.splitlines()]
    for answer, probabilities in zip(answers, expected, strict=True):
        found = [answer["probabilities"][label] for label in ("bad", "good")]
        assert found == pytest.approx(probabilities, abs=1e-5)
