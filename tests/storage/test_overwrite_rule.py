"""Which files and folders an output may replace."""

from refusals import refused

from bert_tf.storage.overwrite_rule import check_is_own, first_foreign, names_in


def test_files_and_empty_folders_are_found_at_any_depth(tmp_path):
    (tmp_path / "a/b/empty").mkdir(parents=True)
    (tmp_path / "a/b/c.txt").write_text("")
    (tmp_path / "d.txt").write_text("")
    assert list(names_in(str(tmp_path))) == ["a/b/c.txt", "a/b/empty/", "d.txt"]
    own = {"a/b/c.txt", "d.txt"}
    assert first_foreign(str(tmp_path), own.__contains__) == "a/b/empty/"
    assert first_foreign(str(tmp_path / "absent"), own.__contains__) is None


def test_an_output_is_replaced_if_it_has_a_mark(tmp_path):
    folder = str(tmp_path)
    outputs, marks = ["x", "y"], ["lock", "index"]
    check_is_own(folder, outputs, marks, "no", "Move it")
    (tmp_path / "y").symlink_to("nowhere")
    with refused(r"y would be replaced, but no\. Move it\.$"):
        check_is_own(folder, outputs, marks, "no", "Move it")
    (tmp_path / "index").write_text("")
    check_is_own(folder, outputs, marks, "no", "Move it")
