"""The name of a released model in a path determines the casing."""

import pytest
from refusals import refused

from bert_tf.tokenization import released_casing, validate_case_matches_checkpoint

LOWER_CASED = (
    "uncased_L-12_H-768_A-12 uncased_L-2_H-128_A-2 wwm_uncased_L-24_H-1024_A-16 "
    "multilingual_L-12_H-768_A-12 chinese_L-12_H-768_A-12"
)
CASED = "cased_L-12_H-768_A-12 wwm_cased_L-24_H-1024_A-16 multi_cased_L-12_H-768_A-12"


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "{}/",
        "{}.zip",
        "a/{}.zip",
        "{}/bert_model.ckpt",
        "/a/{}",
        "gs://b/{}/model",
    ],
)
def test_the_casing_of_a_released_model_is_found_by_its_name(form):
    for names, casing in ((LOWER_CASED, True), (CASED, False)):
        for name in names.split():
            path = form.format(name)
            assert released_casing(path) is casing, path
            validate_case_matches_checkpoint(casing, path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "model.ckpt",
        "my_uncased_L-12_H-768_A-12/model",
        "uncased/model",
        "cased_models/model",
        "a/uncased.ckpt",
        "bert-base-uncased/model.safetensors",
    ],
)
def test_other_names_have_no_released_casing(path):
    assert released_casing(path) is None
    for do_lower_case in (True, False):
        validate_case_matches_checkpoint(do_lower_case, path or None)


def test_a_casing_that_differs_from_the_checkpoint_is_refused():
    with refused(r"do_lower_case is False, but .*uncased.*Set .* to True"):
        validate_case_matches_checkpoint(
            False, "uncased_L-12_H-768_A-12/bert_model.ckpt"
        )
    with refused(r"do_lower_case is True, but .*cased.*Set .* to False"):
        validate_case_matches_checkpoint(
            True, "a/cased_L-12_H-768_A-12/bert_model.ckpt"
        )
