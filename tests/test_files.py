"""Files are written atomically; errors name the file that cannot be read or written."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from bert_tf import atomic_files, files, temporary_files
from bert_tf.errors import InputError


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(str(path), "old")

    class Stop(BaseException):
        pass

    with pytest.raises(Stop), files.atomic_replace(str(path)) as temporary:
        with open(temporary, "w") as file:
            file.write("half")
        assert not temporary.endswith(".txt")
        raise Stop
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_is_replaced_atomically(tmp_path):
    for names in (["a", "b"], ["c"]):
        with files.atomic_folder(str(tmp_path / "folder"), "") as temporary:
            for name in names:
                files.write_text(f"{temporary}/{name}", name)
    assert os.listdir(tmp_path / "folder") == ["c"]
    assert os.listdir(tmp_path) == ["folder"]


def test_a_file_with_the_name_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be created"):
        files.write_text(str(tmp_path / "file/inside/a.txt"), "x")


def test_expand_globs(tmp_path):
    for name in ("b.txt", "a.txt", "c[1].txt"):
        (tmp_path / name).write_text("")
    found = files.expand_globs(f"{tmp_path}/b.txt, {tmp_path}/?.txt,{tmp_path}/c[1].txt")
    assert [os.path.basename(path) for path in found] == ["b.txt", "a.txt", "c[1].txt"]
    with pytest.raises(InputError, match=r"No text file matches .*nothing"):
        files.expand_globs(f"{tmp_path}/nothing*", "text")
    with pytest.raises(InputError, match="No input file was given"):
        files.expand_globs(" ,")


def test_invalid_utf8_is_reported_with_byte_and_line(tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo\xff\n")
    with pytest.raises(InputError, match="byte 0xff in line 2"):
        files.read_text(str(tmp_path / "a"))
    with pytest.raises(InputError, match="is a folder"):
        files.read_text(str(tmp_path))


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 2 << 20)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" + b"b" * (4 << 20))
    with pytest.raises(InputError, match=r"^Line 2 of .*a.txt has more than 2 MiB\. Split it\.$"):
        list(files.read_lines(str(path)))
    path.write_bytes(b"b" * (4 << 20))
    with pytest.raises(InputError, match=r"^Line 1 of .*a.txt has more than 2 MiB"):
        list(files.read_lines(str(path)))
    with pytest.raises(InputError, match=r"^/dev/zero is not UTF-8 text"):
        list(files.read_lines("/dev/zero"))


def test_a_scheme_that_tensorflow_does_not_know_has_no_files():
    assert not files.exists("hf://owner/name/config.json")


WRITER = """
import os, signal, sys
from bert_tf import atomic_files

kind, path, stop = sys.argv[1:]
stopped = lambda: (print("stopped", flush=True), signal.pause())
if stop == "between":
    rename = os.rename
    def wait_after_first_rename(old, new):
        rename(old, new)
        stopped()
    os.rename = wait_after_first_rename
if kind == "file":
    with atomic_files.atomic_replace(path) as temporary:
        open(temporary, "w").write("new")
        stopped()
else:
    with atomic_files.atomic_folder(path, "a") as temporary:
        open(temporary + "/a", "w").write("new")
        if stop != "between":
            stopped()
"""


def start_writer(kind, path, stop="before"):
    """Starts a process that stops while it writes a file or a folder."""
    command = [sys.executable, "-c", WRITER, kind, str(path), stop]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "stopped\n"
    return process


def write(kind, path, content):
    if kind == "file":
        files.write_text(str(path), content)
    else:
        with files.atomic_folder(str(path), "a") as temporary:
            files.write_text(f"{temporary}/a", content)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_next_write_removes_what_a_killed_process_left(tmp_path, kind):
    path = tmp_path / "out.txt"
    (tmp_path / ".other_txt.01234567.tmp").write_text("of another output")
    process = start_writer(kind, path)
    before = set(os.listdir(tmp_path))
    write(kind, path, "second")
    assert before < set(os.listdir(tmp_path)), "a living process keeps its temporary file"
    process.send_signal(signal.SIGKILL)
    process.wait()
    write(kind, path, "third")
    assert (path / "a" if kind == "folder" else path).read_text() == "third"
    assert sorted(os.listdir(tmp_path)) == [".other_txt.01234567.tmp", "out.txt"]
    temporary_files.remove_leftovers(str(tmp_path))
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_folder_is_restored_if_its_replacement_was_killed(tmp_path):
    path = tmp_path / "out"
    write("folder", path, "old")
    process = start_writer("folder", path, "between")
    assert not path.exists()
    temporary_files.remove_leftovers(str(tmp_path))
    assert not path.exists(), "the process still replaces the folder"
    process.send_signal(signal.SIGKILL)
    process.wait()
    temporary_files.remove_leftovers(str(tmp_path))
    assert (path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_permissions_of_an_output_are_kept(tmp_path, kind):
    path = tmp_path / "out"
    write(kind, path, "old")
    path.chmod(0o700)
    write(kind, path, "new")
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "a" if kind == "folder" else path).read_text() == "new"


SCRATCH = """
import os, signal
from bert_tf.temporary_files import scratch_folder

with scratch_folder() as folder:
    open(folder + "/a", "w").close()
    print(folder, flush=True)
    signal.pause()
"""


def test_scratch_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-c", SCRATCH]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    left = pathlib.Path(process.stdout.readline().strip())
    with temporary_files.scratch_folder() as own:
        assert left.stat().st_mode & 0o777 == 0o700
        assert sorted(map(str, tmp_path.iterdir())) == sorted([str(left), own])
    process.kill()
    process.wait()
    assert left.exists()
    with temporary_files.scratch_folder():
        assert not left.exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a_b", "a%b", "a.b", "a%5Fb", "a%2Eb"])
def test_a_leftover_belongs_to_one_name(tmp_path, name):
    prefix = temporary_files.temporary_prefix(name)
    assert "." not in prefix.strip(".")
    (tmp_path / f"{prefix}01234567.tmp.old").mkdir()
    for other in {"a_b", "a%b", "a.b", "a%5Fb", "a%2Eb"} - {name}:
        files.write_text(str(tmp_path / other), "new")
        assert not (tmp_path / name).exists()
    temporary_files.remove_leftovers(str(tmp_path))
    assert (tmp_path / name).is_dir()


def test_long_names_have_short_temporary_names(tmp_path):
    names = ["_" * 180, "_" * 181, "\u0435" * 90]
    for name in names:
        files.write_text(str(tmp_path / name), name)
        (tmp_path / f"{temporary_files.temporary_prefix(name)}01234567.tmp.old").mkdir()
    assert len({temporary_files.temporary_prefix(name) for name in names}) == 3
    temporary_files.remove_leftovers(str(tmp_path))
    assert len(list(tmp_path.glob(".*"))) == 3, "only the next output of this name restores it"
    for name in names:
        files.write_text(str(tmp_path / name), "new")
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_of_a_link_only_the_link_is_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("a")
    for link in ("link", "folder/inner/link"):
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / "mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("link", "folder", "dangling", "absent"):
        files.remove(str(tmp_path / name))
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "mine", "mine/a.txt",
    ]  # fmt: skip


def test_a_staged_folder_replaces_the_folder_at_the_end(tmp_path):
    path = tmp_path / "out"
    write("folder", path, "old")
    with pytest.raises(KeyError), atomic_files.staging_folder(str(path)) as place:
        write("folder", place, "new")
        raise KeyError
    assert (path / "a").read_text() == "old"
    with (
        pytest.raises(InputError, match=f"{path}/a: no space"),
        atomic_files.staging_folder(str(path)) as place,
    ):
        raise InputError(f"{place}/a: no space")
    with atomic_files.staging_folder(str(path)) as place:
        write("folder", place, "new")
        assert (path / "a").read_text() == "old"
    assert (path / "a").read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_a_new_folder_does_not_replace_that_of_another_program(tmp_path):
    with (
        pytest.raises(InputError, match="Another program has written"),
        files.atomic_folder(str(tmp_path / "out"), "a", replace=False) as temporary,
    ):
        files.write_text(f"{temporary}/a", "new")
        write("folder", tmp_path / "out", "old")
    assert (tmp_path / "out/a").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_does_not_replace_a_file(tmp_path):
    (tmp_path / "out").write_text("old")
    with pytest.raises(InputError, match="out is a file"):
        write("folder", tmp_path / "out", "new")
    assert (tmp_path / "out").read_text() == "old"
