"""Links and names in the folder of a checkpoint: which are followed or refused."""

import os

import pytest
from refusals import refused

from bert_tf.storage.files import find_file
from bert_tf.storage.paths import check_plain_name


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("a private file")
    path = tmp_path / "model"
    path.mkdir()
    (path / "vocab.txt").write_text("[PAD]\n")
    return path


def test_a_file_and_a_link_inside_the_folder_are_found(folder, monkeypatch):
    (folder / "link").symlink_to("vocab.txt")
    (folder.parent / "linked_folder").symlink_to(folder)
    for name in ("vocab.txt", "link"):
        assert find_file(str(folder), name) == str(folder / name)
        assert find_file(str(folder.parent / "linked_folder"), name)
    monkeypatch.chdir(folder)
    assert find_file("", "link") == "link"
    assert find_file(str(folder), "missing") is None


def test_a_link_out_of_the_folder_is_refused(folder):
    (folder / "link").symlink_to("../secret")
    with refused(r"model/link is a link to .*, outside of its folder"):
        find_file(str(folder), "link")


def test_links_of_the_cache_of_huggingface_hub_are_followed(tmp_path):
    snapshot = tmp_path / "models--a--b/snapshots/0123"
    (snapshot / "1_Pooling").mkdir(parents=True)
    os.mkdir(tmp_path / "models--a--b/blobs")
    (tmp_path / "models--a--b/blobs/4567").write_text("[PAD]\n")
    (snapshot / "vocab.txt").symlink_to("../../blobs/4567")
    (snapshot / "1_Pooling/config.json").symlink_to("../../../blobs/4567")
    (snapshot / "other.txt").symlink_to("../../refs")
    os.mkdir(tmp_path / "models--a--b/refs")
    assert find_file(str(snapshot), "vocab.txt")
    assert find_file(str(snapshot), "1_Pooling/config.json")
    with refused("outside of its folder"):
        find_file(str(snapshot), "other.txt")


@pytest.mark.parametrize("name", ["", "..", "../a"])
def test_only_plain_names_are_accepted(name):
    check_plain_name("model-00001-of-00002.safetensors", "x")
    with refused(r"x names the file .* Only names without a folder"):
        check_plain_name(name, "x")
