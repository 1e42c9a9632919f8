"""Files are written atomically; errors name the file that cannot be read or written."""

import contextlib
import fnmatch
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import pytest
from refusals import refused

from bert_tf.program import startup
from bert_tf.storage import atomic_files, files


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


def test_expand_globs(tmp_path):
    for name in ("b.txt", "a.txt", "c[1].txt"):
        (tmp_path / name).write_text("")
    found = files.expand_globs(
        f"{tmp_path}/b.txt, {tmp_path}/?.txt,{tmp_path}/c[1].txt"
    )
    assert [os.path.basename(path) for path in found] == ["b.txt", "a.txt", "c[1].txt"]
    with refused(r"No text file matches .*nothing"):
        files.expand_globs(f"{tmp_path}/nothing*", "text")
    with refused("No input file was given"):
        files.expand_globs(" ,")


def test_names_that_are_not_utf8(tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("")
    for call, path in [(files.exists, name), (files.expand_globs, "*")]:
        with refused(r"/caf\\xe9\.txt' is not UTF-8\. Rename it\.$"):
            call(f"{tmp_path}/{path}")


def test_a_folder_without_permission_is_not_absent(tmp_path):
    (tmp_path / "private").mkdir(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # no permission stops root
    try:
        with refused(r"private/a cannot be read: Permission denied\.$"):
            files.exists(f"{tmp_path}/private/a")
    finally:
        os.seteuid(user)


def test_invalid_utf8_is_reported_with_byte_and_line(tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo\xff\n")
    with refused("byte 0xff in line 2"):
        files.read_text(str(tmp_path / "a"))
    with refused("is a folder"):
        files.read_text(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "encoding", "warns"),
    [
        ("Zoë", "latin-1", True),
        ("Zoë", "utf-8-sig", False),
        ("Zoe", "latin-1", False),
        ("Zoë".encode("latin-1"), "latin-1", False),
    ],
)
def test_a_wrong_encoding_gives_one_warning(tmp_path, caplog, content, encoding, warns):
    path = tmp_path / "a.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for _ in range(2):
        list(files.read_lines(str(path), encoding))
    assert caplog.text.count("a.txt is valid UTF-8 with characters beyond") == warns


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 2 << 20)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" + b"b" * (4 << 20))
    (tmp_path / "b.txt").write_bytes(b"b" * (4 << 20))
    (tmp_path / "c.txt").write_bytes(bytes(4 << 20))
    for each, message in (
        (path, r"^Line 2 of .*a.txt has more than 2 MiB\. Split it\.$"),
        (tmp_path / "b.txt", r"^Line 1 of .*b.txt has more than 2 MiB"),
        (tmp_path / "c.txt", r"c.txt is not UTF-8 text"),
        ("/dev/zero", r"^/dev/zero is a pipe or a device"),
    ):
        with refused(message):
            list(files.read_lines(str(each)))


def test_the_hash_of_lines_that_were_read_needs_no_second_read(tmp_path, monkeypatch):
    path = tmp_path / "data.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb")

    def hash_without_reading():
        with monkeypatch.context() as context:
            context.delattr(files, "size_and_sha256")
            return files.sha256_of_file(str(path))

    next(files.read_lines(str(path)))
    with pytest.raises(NameError):
        hash_without_reading()
    assert list(files.read_lines(str(path))) == ["a", "b"]
    assert hash_without_reading() == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"a\nb\nc")
    assert files.sha256_of_file(str(path)) == hashlib.sha256(b"a\nb\nc").hexdigest()


def test_a_scheme_that_tensorflow_does_not_know_has_no_files():
    assert not files.exists("hf://owner/name/config.json")


WRITER = """
import os, signal, sys
from bert_tf.storage import atomic_files

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


def content_of(path):
    return (path / "a" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_next_write_removes_what_a_killed_process_left(tmp_path, kind):
    path, other = (
        tmp_path / "out.txt",
        atomic_files.temporary_path(str(tmp_path / "other.txt")),
    )
    pathlib.Path(other).write_text("of another output")
    process = start_writer(kind, path)
    left = pathlib.Path(atomic_files.temporary_path(str(path)))
    atomic_files.remove_leftovers(str(tmp_path))
    assert left.exists() and not os.path.exists(other), (
        "only a living process keeps its file"
    )
    process.kill()
    process.wait()
    write(kind, path, "second")
    assert content_of(path) == "second"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_second_writer_waits_for_the_first_one(tmp_path, kind, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "out"
    process = start_writer(kind, path)
    timer = threading.Timer(1, process.kill)
    timer.start()
    write(kind, path, "second")
    process.wait()
    assert f"Waiting for another process that writes {path}." in caplog.text
    assert content_of(path) == "second"
    assert os.listdir(tmp_path) == ["out"]


def test_the_end_of_a_write_keeps_the_temporary_file_of_the_next_one(
    tmp_path, monkeypatch
):
    path, sync, begun = tmp_path / "out", atomic_files._sync_entry, []
    with contextlib.ExitStack() as second:

        def begin_second(entry):
            sync(entry)
            if (
                entry == str(tmp_path) and not begun
            ):  # the first file has its name already
                begun.append(second.enter_context(files.atomic_replace(str(path))))

        monkeypatch.setattr(atomic_files, "_sync_entry", begin_second)
        files.write_text(str(path), "first")
        pathlib.Path(begun[0]).write_text("second")
    assert path.read_text() == "second" and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("repair", ["write", "remove_leftovers"])
def test_a_folder_is_restored_if_its_replacement_was_killed(tmp_path, repair):
    path = tmp_path / "out"
    write("folder", path, "old")
    process = start_writer("folder", path, "between")
    assert not path.exists()
    process.kill()
    process.wait()
    if repair == "write":
        with pytest.raises(KeyError), files.atomic_folder(str(path), "a"):
            assert (path / "a").read_text() == "old"
            raise KeyError
    else:
        atomic_files.remove_leftovers(str(tmp_path))
    assert content_of(path) == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_permissions_of_an_output_are_kept(tmp_path, kind):
    path = tmp_path / "out"
    write(kind, path, "old")
    path.chmod(0o700)
    write(kind, path, "new")
    assert path.stat().st_mode & 0o777 == 0o700
    assert content_of(path) == "new"


def test_each_output_has_its_own_temporary_name():
    names = [
        "a_b",
        "a%b",
        "a.b",
        "a%5Fb",
        *("_" * n for n in (50, 51, 180)),
        "\u0435" * 127,
    ]
    paths = [atomic_files.temporary_path(f"folder/{name}") for name in names]
    assert len(set(paths)) == len(names)
    for path in paths:
        folder, name = os.path.split(path)
        assert folder == "folder" and len(os.fsencode(name)) < 255
        assert not fnmatch.fnmatch(name, "*.b") and name.startswith(".")


def test_of_a_link_only_the_link_is_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("a")
    for link in ("link", "folder/inner/link"):
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / "mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("link", "folder", "dangling", "absent"):
        files.remove(str(tmp_path / name))
    left = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))]
    assert left == ["mine", "mine/a.txt"]


def test_a_new_folder_does_not_replace_one_that_appears_meanwhile(tmp_path):
    with (
        refused("Another program has written"),
        files.atomic_folder(str(tmp_path / "out"), "a", replace=False) as temporary,
    ):
        files.write_text(f"{temporary}/a", "new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out/a").write_text("of another program, which does not wait")
    assert (tmp_path / "out/a").read_text().startswith("of another program")
    assert os.listdir(tmp_path) == ["out"]


def test_a_temporary_folder_that_cannot_be_created(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    message = "No temporary folder .*: No such file or directory. Set .* TMPDIR"
    out = files.atomic_folder(str(tmp_path / "out"), "x")
    with refused(message), out, files.temporary_folder():
        pass
    with refused(message):
        startup.import_tensorflow()
    assert os.listdir(tmp_path) == []
