"""The commands of docs/domain.md run as they are written there, at a tiny size."""

import re
import shlex

import pytest
from guide_program import code_blocks
from run_programs import results_of, run_mains

import bert_tf

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SENTENCES = [
    "the acid is bad.",
    "a good acetyl acid!",
    "the acetyl is good.",
    "a bad salt?",
]
# Flags that follow those of the guide, so that the programs take seconds.
TINY = {"run_pretraining": ["--num_train_steps=3", "--train_batch_size=4"]}


@pytest.mark.slow
def test_the_commands_lead_from_a_bert_and_texts_to_predictions(tmp_path):
    letters = [chr(code) for code in range(97, 123)]
    pieces = [*letters, *(f"##{each}" for each in letters), *".!?"]
    pieces += ["the", "is", "good", "bad"]
    tokenizer = bert_tf.BertTokenizer([*SPECIAL, *pieces], do_lower_case=True)
    config = bert_tf.BertConfig(
        tokenizer.vocab_size, 8, 1, 2, 8, max_position_embeddings=128
    )
    bert_tf.save_checkpoint(
        bert_tf.BertPretrainer(config, seed=0), tokenizer, tmp_path / "bert"
    )
    for folder in ("domain", "labelled"):
        (tmp_path / folder).mkdir()
    text = "\n\n".join("\n".join(SENTENCES[n % 3 :]) for n in range(200))
    (tmp_path / "domain/one.txt").write_text(text)
    rows = [f"{text},{'good' in text}" for text in SENTENCES * 4]
    for name in ("train", "dev"):
        (tmp_path / f"labelled/{name}.csv").write_text("\n".join(["text,label", *rows]))

    (block,) = code_blocks("domain.md", "bash")
    lines = [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]
    commands = [
        (f"bert_tf.{folder}.{name}", [*flags, *TINY.get(name, [])])
        for _, program, *flags in lines
        for folder, name in [program.removesuffix(".py").split("/")]
    ]
    assert len(commands) <= 8
    results = run_mains(commands, cwd=tmp_path)
    assert not [result.messages[-1] for result in results if result.code]
    assert "acetyl" in results[0].out
    assert bert_tf.load(tmp_path / "classifier").tokenizer.tokenize("acetyl").shape == 1
    assert results_of(tmp_path / "pretrained")["global_step"] == 3
    assert re.match(r"(True|False)\t0\.\d+\tThe tablets", results[-1].out)
