"""Exported SQuAD models and run_squad, on questions of the dev set of SQuAD 1.1."""

import pytest
from tiny_bert import small_config

import bert_tf
from benchmarks import squad_saved_model
from bert_tf.export.served import load_served
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.squad.squad_examples import read_examples

EVERY = 10  # of the 10,570 questions
FACTS = {
    "task": "squad",
    "task_type": "span",
    "doc_stride": 32,
    "max_query_length": 16,
    "n_best_size": 20,
    "max_answer_length": 30,
    "version_2_with_negative": False,
    "null_score_diff_threshold": 0.0,
    "padding_as_released": False,
    "max_seq_length": 96,
}


@pytest.mark.slow
def test_real_questions_get_the_answers_of_run_squad(test_data, tmp_path):
    path = str(test_data / "data/squad/dev-v1.1.json")
    examples = list(read_examples(path, False, False, RowCounts()))[::EVERY]
    tokenizer = bert_tf.BertTokenizer(
        str(test_data / "data/vocab/bert-base-uncased-vocab.txt")
    )
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 96}
    config = small_config(len(tokenizer.vocabulary), initializer_range=0.5, **sizes)
    model = bert_tf.BertSpanPredictor(config, seed=3)
    folder = bert_tf.save_checkpoint(model, tokenizer, str(tmp_path / "model"), **FACTS)
    checkpoint = bert_tf.load(folder)
    signature = load_served(checkpoint).signatures()["serving_default"]
    settings = squad_saved_model.answer_settings(checkpoint, 0.0)
    counts, metrics = squad_saved_model.compare(
        checkpoint, signature, examples, settings
    )
    assert counts["questions"] == len(examples) == 1057
    # Float32 sums in another order can exchange two spans whose scores are almost
    # equal.
    assert counts["same first and last token"] + counts.get("near ties", 0) == len(
        examples
    )
    assert counts.get("near ties", 0) <= 3
    assert counts.get("text: other", 0) == 0
    f1 = [each["f1"] for each in metrics.values()]
    assert abs(f1[0] - f1[1]) <= 0.1
