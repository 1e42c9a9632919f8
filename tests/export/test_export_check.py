"""The check of a written SavedModel: different outputs leave nothing behind."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import export_models
import numpy as np
import pytest
import tensorflow as tf
from json_files import write_json
from model_file_checks import extra_file, report_of, saved_model
from processors import EMULATION, needs_bfloat16
from refusals import refused
from run_programs import assert_refused, run_main

from bert_tf.export import api, check, layout
from bert_tf.export.served import ServedClassifier, load_served
from bert_tf.export.served.fill_mask import ServedPretrainer
from bert_tf.export.served.multiple_choice import ServedChoice
from bert_tf.export.served.span_predictor import ServedSpanPredictor
from bert_tf.export.served.tagger import ServedTagger
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.storage import files
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.training import mixed_precision
from bert_tf.training.training_config import TrainingConfig, to_json_dict

SINGLE, HALF = check.LIMITS["float32"], check.LIMITS["bfloat16"]


@export_models.EACH_KIND
def test_each_kind_passes_and_has_all_files(exported, kind):
    folder = exported(kind)
    extra = os.listdir(os.path.join(folder, "assets.extra"))
    expected = {
        "README.md",
        "bert_config.json",
        "export_report.json",
        "model_card.md",
        "request.json",
        "tf_serving_warmup_requests",
        "vocab.txt",
        "weights.json",
    }
    has_labels = kind in ("classification", "pair", "multi_label", "tagging")
    assert set(extra) == expected | ({"labels.txt"} if has_labels else set())
    assert set(os.listdir(folder)) >= {
        "saved_model.pb",
        "batching_params.pbtxt",
        "variables",
    }
    facts = json.loads(extra_file(folder, "weights.json"))
    _, stated = export_models.model_of(kind)
    assert {name: facts[name] for name in stated} == stated
    report = report_of(folder)
    signatures = saved_model(folder).signatures
    compared = {(each["signature"], each["output"]) for each in report["outputs"]}
    assert compared == {
        (name, output)
        for name, each in signatures.items()
        for output in each.structured_outputs
    }


@needs_bfloat16
@pytest.mark.medium
def test_bfloat16_weights_are_compared_with_the_float32_model(exported):
    folder, single = exported("pair", "bfloat16"), exported("pair")
    sizes = [
        os.path.getsize(f"{each}/variables/variables.data-00000-of-00001")
        for each in (folder, single)
    ]
    assert sizes[0] < 0.75 * sizes[1]
    models = [saved_model(each).signatures for each in (folder, single)]
    half, full = (
        export_models.call(each["serving_default"], text_a=["a b c"], text_b=["d"])[
            "probabilities"
        ]
        for each in models
    )
    assert half.dtype == full.dtype == np.float32
    assert 0 < np.abs(half - full).max() < 0.05


@pytest.mark.medium
def test_emulated_bfloat16_is_named_as_the_reason(
    tmp_path, monkeypatch, caplog, without_export_check
):
    (tmp_path / "cpuinfo").write_text("flags : avx2")
    monkeypatch.setattr(mixed_precision, "_CPU_INFO", str(tmp_path / "cpuinfo"))

    def refuse(*_, **__):
        raise check.ExportCheckError("It differs. Nothing was exported.")

    monkeypatch.setattr(check, "judge", refuse)
    remedy = r"Give precision=float32 for servers like this machine\."
    message = rf"bfloat16 is emulated, .* {remedy}"
    with pytest.raises(
        check.ExportCheckError,
        match=rf"It differs\. Nothing was exported\. {message}",
    ):
        export_models.export("embedding", tmp_path, precision="bfloat16")
    assert re.search(f"warning: {message}", caplog.text)

    with pytest.raises(
        check.ExportCheckError, match=r"^It differs\. Nothing was exported\.$"
    ):
        export_models.export("embedding", tmp_path)


@pytest.mark.medium
def test_a_damaged_saved_model_is_refused_and_removed(tmp_path, monkeypatch):
    export_models.save_with_bias(monkeypatch, [1.5, 0, 0])
    with pytest.raises(
        check.ExportCheckError,
        match=r"The SavedModel differs .* Nothing was exported",
    ):
        export_models.export("classification", tmp_path)
    assert not os.listdir(tmp_path / "served")


def test_a_saved_model_that_needs_this_library_is_refused(tmp_path, monkeypatch):
    write = tf.saved_model.save

    def save_python(served, place, signatures):
        def call(text):
            return {
                "embedding": tf.py_function(
                    lambda _: tf.zeros([1, 8]), [text], tf.float32
                )
            }

        spec = tf.TensorSpec([None], tf.string, name="text")
        function = tf.function(call).get_concrete_function(text=spec)
        write(served, place, signatures={**signatures, "serving_default": function})

    monkeypatch.setattr(tf.saved_model, "save", save_python)
    with pytest.raises(
        check.ExportCheckError, match="contains the operation EagerPyFunc, which"
    ):
        export_models.export("embedding", tmp_path)
    assert not os.listdir(tmp_path / "served")


def test_the_program_exports_with_flags_and_refuses_in_one_line(tmp_path):
    path, _ = export_models.write_checkpoint("fill_mask", tmp_path)
    command = [
        f"--checkpoint={path}",
        f"--export_dir={tmp_path}/served",
        "--task=embedding",
    ]
    precision = (
        "float32" if EMULATION else "bfloat16"
    )  # emulated outputs may differ too much
    exported, without_pairs = run_main(
        "bert_tf.run_scripts.export_model",
        [*command, "--pooling=first", "--max_seq_length=5", f"--precision={precision}"],
        [*command, "--pair=true"],
    )
    assert exported.code == 0, exported
    assert exported.out.strip() == f"{tmp_path}/served/1"
    assert (
        "7 outputs compared with the model in memory: the largest difference is"
        in exported.err
    )
    assert_refused(without_pairs, "--pair=True has no effect for the task embedding")
    assert os.listdir(tmp_path / "served") == ["1"]


def test_a_checkpoint_in_the_folder_of_a_run_has_the_threshold_of_the_run(tmp_path):
    model, facts = export_models.model_of("span")
    run = tmp_path / "run"
    path = export_models.save(model, run / "checkpoints/step-1", **facts)
    settings = to_json_dict(TrainingConfig(num_train_steps=1, num_warmup_steps=0))
    write_json(run / "training_config.json", settings)
    (run / "squad_threshold.json").write_text('{"null_score_diff_threshold": 1e9}')
    for settings, has_answer in (
        ({}, True),
        ({"null_score_diff_threshold": -1e9}, False),
    ):
        job = api._job(path, ServingSettings(**settings), None, "1", {})
        served = load_served(job.checkpoint, job.settings)
        outputs = served.from_texts(["a b"], ["c d e f g h a b c"])
        assert outputs["no_answer"].numpy().tolist() == [not has_answer]


def test_other_folders_are_no_versions(tmp_path):
    for name in ("3", "²", "x4", "05"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    assert layout.newest_version(str(tmp_path)).endswith("05")
    (tmp_path / "6").mkdir()
    assert layout.next_version(str(tmp_path)) == 7


def test_an_object_store_may_contain_a_version_that_is_being_written(caplog):
    folder = "ram://versions"
    files.write_text(f"{folder}/1/saved_model.pb", "")
    files.write_text(f"{folder}/2/variables/variables.index", "")
    assert layout.newest_version(folder) == f"{folder}/1"
    assert "2 is the newest version, but has no saved_model.pb" in caplog.text


@pytest.mark.medium
def test_a_version_of_another_program_is_kept(
    tmp_path, monkeypatch, without_export_check
):
    other = tmp_path / "served/1/saved_model.pb"

    def judge(*_, **__):
        other.parent.mkdir()
        other.write_text("of another program")
        return {"outputs": [], "metric": None}

    with monkeypatch.context() as patched:
        patched.setattr(check, "judge", judge)
        with refused(r"written .*served/1 meanwhile\. Start"):
            export_models.export("regression", tmp_path)
    assert other.read_text() == "of another program"
    assert os.listdir(tmp_path / "served") == ["1"]
    assert export_models.export("regression", tmp_path).endswith("2")


def texts(*values):
    """Returns texts as the outputs of a SavedModel: object [..., N]."""
    return np.array(values, object)


def floats(*values):
    return np.array(values, "f")


def served_as(served_class, **attributes):
    """Returns a served model without a model."""
    served = served_class.__new__(served_class)
    for name, value in attributes.items():
        object.__setattr__(served, name, value)
    return served


CLASSIFIER = served_as(ServedClassifier, _threshold=0.5)
PRETRAINER, CHOICE = served_as(ServedPretrainer), served_as(ServedChoice)
TAGGER = served_as(ServedTagger)
ANSWERS, ONE_ANSWER, VERSION_2 = (
    served_as(ServedSpanPredictor, _settings=AnswerSettings(**settings))
    for settings in (
        {},
        {"n_best_size": 1},
        {"version_2_with_negative": True, "null_score_diff_threshold": 0.5},
    )
)
LABEL = {"probabilities": floats([0.5, 0.3, 0.2]), "label": texts(b"x")}
LABEL_TIE = {**LABEL, "probabilities": floats([0.4, 0.4, 0.2])}
SEVERAL = {"probabilities": floats([0.9, 0.5, 0.1]), "labels": texts(b"x,y")}
CLASSES = {"classes": texts([b"x", b"y", b"z"]), "scores": floats([0.7, 0.2, 0.1])}
CLASSES_TIE = {**CLASSES, "scores": floats([0.4, 0.4, 0.2])}
TOKENS = {
    "tokens": texts([[b"a", b"b", b"c"]]), "probabilities": floats([[0.6, 0.2, 0.2]])
}  # fmt: skip
ONE_TOKEN = {"tokens": texts([[b"a"]]), "probabilities": floats([[0.6]])}
RANKING = {
    "probabilities": floats([0.5, 0.3, 0.2, 0.0]), "ranking": np.array([[0, 1, 2, 3]]),
    "choice": texts(b"x"), "index": np.array([0]),
}  # fmt: skip
RANKING_TIE = {**RANKING, "probabilities": floats([0.4, 0.4, 0.2, 0.0])}
OTHER_CHOICE = {
    "ranking": np.array([[1, 0, 2, 3]]), "choice": texts(b"y"), "index": np.array([1])
}  # fmt: skip
ANSWER = {
    "answer": texts(b"Ann"), "start": np.array([4]), "end": np.array([7]),
    "score": floats(8.0), "probability": floats(0.9), "no_answer": np.array([False]),
}  # fmt: skip
ANSWER_TIE = {**ANSWER, "probability": floats(0.5)}
OTHER_ANSWER = {"answer": texts(b"Bob"), "start": np.array([9]), "end": np.array([12])}
OTHER_PLACE = {"start": np.array([14]), "end": np.array([17])}
NOTHING = {"answer": texts(b""), "no_answer": np.array([True])}
AT_THRESHOLD = {**ANSWER, "null_score_diff": floats(0.49)}
ABOVE = {**NOTHING, "null_score_diff": floats(0.505)}
FAR = {**ANSWER, "null_score_diff": floats(-3.0)}
TAGS = {
    "words": texts([b"a", b"b"]), "tags": texts([b"O", b"B-x"]),
    "probabilities": floats([0.9, 0.6]), "entities": texts([b"b"]),
}  # fmt: skip
TAGS_TIE = {**TAGS, "probabilities": floats([0.5, 0.9])}
NO_ENTITY = {"tags": texts([b"O", b"O"]), "entities": texts([b""])}


def case(served, expected, other, *failed, limits=SINGLE):
    """Returns a model, its outputs, others, and those that differ too much."""
    return served, limits, (expected, {**expected, **other}), list(failed)


CASES = [
    case(CLASSIFIER, LABEL_TIE, {"label": texts(b"y, z")}),
    case(CLASSIFIER, LABEL, {"label": texts(b"y, z")}, "label"),
    case(
        CLASSIFIER,
        {**LABEL, "probabilities": floats([0.400015, 0.4, 0.2])},
        {"label": texts(b"y, z")},
    ),
    case(
        CLASSIFIER,
        LABEL_TIE,
        {"probabilities": floats([0.40002, 0.4, 0.2])},
        "probabilities",
    ),
    case(CLASSIFIER, SEVERAL, {"labels": texts(b"x")}),
    case(
        CLASSIFIER,
        {**SEVERAL, "probabilities": floats([0.9, 0.51, 0.1])},
        {"labels": texts(b"x")},
        "labels",
    ),
    case(CLASSIFIER, CLASSES, {}),
    case(CLASSIFIER, CLASSES, {"classes": texts([b"y", b"x", b"z"])}, "classes"),
    case(CLASSIFIER, CLASSES_TIE, {"classes": texts([b"y", b"x", b"z"])}),
    case(CLASSIFIER, CLASSES_TIE, {"classes": texts([b"x", b"z", b"y"])}, "classes"),
    case(PRETRAINER, TOKENS, {"tokens": texts([[b"a", b"c", b"b"]])}),
    case(PRETRAINER, TOKENS, {"tokens": texts([[b"b", b"a", b"c"]])}, "tokens"),
    case(PRETRAINER, TOKENS, {"tokens": texts([[b"a", b"b", b"d"]])}),
    case(PRETRAINER, ONE_TOKEN, {"tokens": texts([[b"b"]])}, "tokens"),
    case(
        PRETRAINER,
        {**ONE_TOKEN, "probabilities": floats([[0.4]])},
        {"tokens": texts([[b"b"]])},
    ),
    case(
        PRETRAINER,
        {"score": floats(-3.0), "num_tokens": np.array([3])},
        {"num_tokens": np.array([4])},
        "num_tokens",
    ),
    case(CHOICE, RANKING_TIE, OTHER_CHOICE),
    case(CHOICE, RANKING_TIE, {"ranking": np.array([[0, 2, 1, 3]])}, "ranking"),
    case(CHOICE, RANKING, OTHER_CHOICE, "ranking", "choice", "index"),
    case(ANSWERS, ANSWER, OTHER_ANSWER, "answer", "start", "end"),
    case(ANSWERS, ANSWER, OTHER_PLACE),
    case(
        ANSWERS,
        ANSWER,
        {**OTHER_PLACE, "score": floats(8.0005)},
        "start",
        "end",
        "score",
    ),
    case(ANSWERS, ANSWER_TIE, OTHER_ANSWER),
    case(ANSWERS, ANSWER_TIE, {"no_answer": np.array([True])}, "no_answer"),
    case(ONE_ANSWER, ANSWER, OTHER_ANSWER),
    case(VERSION_2, AT_THRESHOLD, ABOVE, limits=HALF),
    case(VERSION_2, AT_THRESHOLD, ABOVE, "answer", "no_answer", "null_score_diff"),
    case(
        VERSION_2,
        {**ANSWER, "null_score_diff": floats(0.4)},
        {**NOTHING, "null_score_diff": floats(0.41)},
        limits=HALF,
    ),
    case(VERSION_2, FAR, NOTHING, "answer", "no_answer", limits=HALF),
    case(TAGGER, TAGS, NO_ENTITY, "tags", "entities"),
    case(TAGGER, TAGS_TIE, NO_ENTITY),
    case(TAGGER, TAGS_TIE, {"words": texts([b"a", b"c"])}, "words"),
]


@pytest.mark.parametrize(("served", "limits", "pair", "failed"), CASES)
def test_values_may_differ_only_where_a_decision_is_close(served, limits, pair, failed):
    assert failed_outputs(served, limits, pair) == failed


def failed_outputs(served, limits, *pairs):
    """Returns the outputs in which two models differ too much."""
    results = check.compare(served, "serving_default", pairs, limits)
    return [each.output for each in results if not each.passed]


@pytest.mark.parametrize(
    "limits", [SINGLE, HALF, dataclasses.replace(SINGLE, judges_values=False)]
)
def test_values_that_are_not_finite_are_refused(limits):
    """Also without a limit of values, as for int8, and with a request without rows."""
    finite = {"probabilities": np.full([300, 3], 0.5, np.float32)}
    infinite = {"probabilities": finite["probabilities"].copy()}
    infinite["probabilities"][7, 1] = np.inf
    nan = {"probabilities": finite["probabilities"] * np.nan}
    empty = {"probabilities": finite["probabilities"][:0]}
    for pair in ((finite, infinite), (infinite, finite), (infinite, infinite)):
        assert failed_outputs(CLASSIFIER, limits, pair) == ["probabilities"]
    found = failed_outputs(CLASSIFIER, limits, (finite, nan), (empty, empty))
    assert found == ["probabilities"]


@pytest.mark.medium
def test_the_command_of_the_readme_runs_saved_model_cli(exported):
    folder = exported("choice")
    command = re.search(r"^python -c [^`]*", extra_file(folder, "README.md"), re.M)[0]
    done = subprocess.run(
        ["bash", "-c", f"python() {{ '{sys.executable}' \"$@\"; }}\n{command}"],
        cwd=os.path.dirname(folder),
        capture_output=True,
        text=True,
    )
    assert "Result for output key probabilities" in done.stdout, done.stderr
