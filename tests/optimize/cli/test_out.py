"""Results that cannot be written: told before any work, and by the name of the file."""

import errno
import os
import tempfile
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from jaxsim.io.files import naming, try_folder, write_bytes
from optimize.cli.main import main
from optimize.results.folder import RunFolder
from optimize.running import gallery
from optimize.studies import push_map
from optimize.studies.push_options import MapOptions
from optimize.tuning import tune
from optimize.tuning.checkpoint import History

COMMANDS = [
    ["simulate", "walk"],
    ["simulate", "box_stack"],
    ["tune", "walk", "--objective", "stand", "--free", "all"],
    ["tune", "--resume"],
    ["demo"],
    ["gallery"],
    ["pushmap"],
    ["pushmap", "--resume"],
    ["tune", "push", "--objective", "survive"],
]


def a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    return tmp_path / "out", "is a file"


def below_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    return tmp_path / "file" / "out", f"{tmp_path / 'file'} is a file"


def a_broken_link(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    return tmp_path / "out", "is a link to what is not there"


def too_long(tmp_path):
    return tmp_path / ("x" * 300) / "out", "File name too long"


WAYS = [a_file, below_a_file, a_broken_link, too_long]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_tells_it_before_any_work(command, way, tmp_path, run_all_by, capsys):
    run_all_by(lambda _: pytest.fail("work began"))
    out, says = way(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main([*command, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert says in err and str(out) in err and "choose another folder" in err
    assert err.count("\n") == 1 and sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_disk_that_takes_nothing_is_told_too(
    command, number, tmp_path, monkeypatch, run_all_by, capsys
):
    """Permissions do not bind every user, so the disk's answer is put in its mouth."""

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    run_all_by(lambda _: pytest.fail("work began"))
    assert main([*command, "--out", str(tmp_path / "new")]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path / 'new'} cannot be written: {os.strerror(number)}" in err
    assert not list(tmp_path.iterdir())


def test_from_python_it_is_told_before_any_work_as_well(tmp_path, monkeypatch):
    def work(*_, **__):
        pytest.fail("work began")

    (tmp_path / "out").write_text("")
    monkeypatch.setattr(tune, "build_problem", work)
    monkeypatch.setattr(push_map, "map_request", work)
    monkeypatch.setattr(gallery, "run_scenario", work)
    for begin in (
        lambda out: tune.tune("walk", "stand", out=out, free="all"),
        lambda out: push_map.push_map(MapOptions(), out),
        lambda out: gallery.gallery(out, progress=False, say=lambda *_: None),
    ):
        with pytest.raises(OSError, match="out is a file; choose another folder"):
            begin(tmp_path / "out")


def test_a_good_folder_is_left_as_it_was(tmp_path):
    try_folder(tmp_path)
    try_folder(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


# ---- a disk that gets full


@contextmanager
def small_disk():
    """Real errors of the system: files may hold 2000 bytes. Around what is tested only:
    pytest may write to a file, too."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_does_not_fit_is_named_and_the_old_one_stays(tmp_path):
    path = tmp_path / "motion.npz"
    write_bytes(path, b"old")
    with small_disk(), pytest.raises(OSError, match=r"File too large: '.*motion\.npz'$"):
        write_bytes(path, bytes(3000))
    assert [p.name for p in tmp_path.iterdir()] == ["motion.npz"] and path.read_bytes() == b"old"
    with small_disk(), pytest.raises(OSError, match=r"File too large: '.*best\.scl'$"):
        RunFolder(tmp_path).write_text(RunFolder.BEST_SCRIPT, "x" * 3000)


def test_a_history_that_does_not_fit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("optimize.tuning.checkpoint.history_line", lambda record: "x" * 999 + "\n")
    record: Any = SimpleNamespace(generation=0)
    history = History(tmp_path / "history.jsonl")
    history.write([record, record])
    with small_disk(), pytest.raises(OSError, match=r"File too large: '.*history\.jsonl'$"):
        history.append([record])
    assert history.path.stat().st_size == 2000 == history.size


def test_a_command_on_a_full_disk_names_the_file(tmp_path, run_all_by, capsys):
    jax.devices()

    def full(args):
        with naming(tmp_path / "summary.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run_all_by(full)
    assert main(["simulate", "walk", "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "No space left on device" in err and "summary.json" in err and err.count("\n") == 1
