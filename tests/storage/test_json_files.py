"""The reader of JSON: which texts and values it refuses and accepts."""

import pytest
from refusals import refused, refused_with

from bert_tf.storage import json_files
from bert_tf.storage.json_files import LENGTH, NUMBER, OBJECT, TEXT, TRUTH


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x is not JSON: Expecting value"),
        ('{"a": {"b": 1, "b": 1}}', "x is not JSON: the key 'b' occurs twice"),
        ('{"\\udc00": 1}', "has a lone surrogate"),
        ('[["\\ud800"]]', "has a lone surrogate"),
        ("\ufeff{}", "x is not JSON: Unexpected UTF-8 BOM"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_not_strict_json_is_refused(text, message):
    with refused_with(message) as error:
        json_files.parse(text, "x")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"a": [1, 2.5, null, true, "\\ud83d\\ude00"]}',
            {"a": [1, 2.5, None, True, "😀"]},
        ),
        ("1000000000000000019884624838656", 1000000000000000019884624838656),
    ],
)
def test_json_is_parsed(text, value):
    assert json_files.parse(text, "x") == value


def test_metrics_of_own_files_may_be_nan(tmp_path):
    path = str(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"loss": NaN}')
    assert json_files.read(path, own=True)["loss"] != 0
    (tmp_path / "a.json").write_text("[]")
    with refused(r"a\.json is damaged: it must contain one JSON object"):
        json_files.read(path, own=True)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"a": 1}', "utf-8")
    assert json_files.read(str(tmp_path / "a.json")) == {"a": 1}


@pytest.mark.parametrize(
    ("rule", "accepted", "wrong"),
    [
        (TEXT, ["", "a"], [1, True, ["a"], {}]),
        (TRUTH, [True, False], [0, 1, "true"]),
        (LENGTH, [1, 5], [0, -1, 1.0, True, "5", 1 << 32]),
        (NUMBER, [1, -2.5], [True, "1", float("nan")]),
        (OBJECT, [{}, {"a": 1}], ["a", [], 1]),
    ],
)
def test_rules_accept_and_refuse(rule, accepted, wrong):
    for value in [*accepted, None]:
        json_files.check({"key": value, "other": object()}, {"key": rule}, "x")
    for value in wrong:
        with refused(r"x: key must be .* Received: "):
            json_files.check({"key": value}, {"key": rule}, "x")


def test_required_keys_need_a_value(tmp_path):
    path = tmp_path / "a.json"
    for text in ("{}", '{"step": null}'):
        path.write_text(text)
        assert json_files.read(str(path), {"step": LENGTH}).get("step") is None
        with refused(r"a\.json is damaged: step must be .* Received: None"):
            json_files.read(str(path), {"step": LENGTH}, own=True, required=True)
