import os
import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from plica.errors import FileFormatError
from plica.paths import check_can_create, filling, replacing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(target: AbstractContextManager[Path]) -> None:
    """Fail after something was written."""
    with target as temporary:
        path = temporary / "a" if temporary.is_dir() else temporary
        path.write_text("half")
        raise ZeroDivisionError


def write_new(target: AbstractContextManager[Path], letters: str) -> None:
    """Write a file for each letter."""
    with target as temporary:
        for name in letters:
            (temporary / name).write_text("new")


def test_replacing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("first")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError):
        write_half(replacing(path))
    assert path.read_text() == "first"
    assert names(tmp_path) == ["a.txt"]


def test_filling_makes_a_folder_at_once(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "deep" / "demo"
    with filling(out) as temporary:
        (temporary / "a").write_text("a")
        assert not out.exists()
    assert names(out) == ["a"]
    assert names(out.parent) == ["demo"]


def test_filling_leaves_nothing_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(ZeroDivisionError):
        write_half(filling(tmp_path / "runs" / "deep" / "demo"))
    assert names(tmp_path) == ["runs"]
    assert names(tmp_path / "runs") == []


def test_filling_replaces_files_and_keeps_others(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ZeroDivisionError):
        write_half(filling(tmp_path))
    assert (tmp_path / "a").read_text() == "old"
    with filling(tmp_path) as temporary:
        (temporary / "a").write_text("new")
    assert names(tmp_path) == ["a", "mine"]
    assert (tmp_path / "a").read_text() == "new"


def test_filling_puts_back_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").symlink_to("a")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "c" and self.parent.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(KeyboardInterrupt):
        write_new(filling(tmp_path), "abc")
    assert names(tmp_path) == ["a", "c"]
    assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "c").is_symlink()


def test_folders_in_the_way_of_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    message = re.escape(f"{tmp_path / 'a'}: is a folder, and a file")
    with pytest.raises(FileFormatError, match=message):
        check_can_create(tmp_path, ["b", "a"])
    with pytest.raises(FileFormatError, match=message):
        write_new(filling(tmp_path), "0a")
    with pytest.raises(FileFormatError, match=message), replacing(tmp_path / "a"):
        pass
    missing = tmp_path / "nowhere" / "a"
    with pytest.raises(FileFormatError, match=r"there is no folder .*nowhere; make it first"), replacing(missing):
        pass
    assert names(tmp_path) == ["a"]


def test_replacing_writes_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    with replacing(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "new"


def test_temporary_files_lie_where_the_results_will(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with filling(tmp_path / "out") as temporary:  # the folder above may be another file system
        assert temporary.is_relative_to(tmp_path / "out")
    with replacing(tmp_path / ("n" * 200)) as file:
        file.write_text("")
    assert names(tmp_path) == ["n" * 200, "out"]


def test_filling_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with filling(Path()) as temporary:
        (temporary / "a").write_text("a")
    assert names(tmp_path / "here") == ["a"]
    assert names(tmp_path) == ["here"]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "demo"):
        with pytest.raises(
            FileFormatError, match=re.escape(f"{path}: cannot be a folder, because {tmp_path / 'file'}")
        ):
            check_can_create(path)
    check_can_create(tmp_path / "new" / "demo")
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system of Linux")
def test_a_folder_that_takes_nothing() -> None:
    with pytest.raises(FileFormatError, match=r"^/proc/demo: (cannot write|no permission to write) in /proc"):
        check_can_create(Path("/proc/demo"))


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(FileFormatError, match=r"no permission to write in .*; choose another output folder"):
        check_can_create(tmp_path / "demo")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that takes no files, whoever asks")
def test_a_file_in_a_folder_that_takes_nothing() -> None:
    with pytest.raises(FileFormatError, match=r"^/proc/a\.csv: cannot be written: .*; choose another folder"):
        replacing("/proc/a.csv").__enter__()


def test_pipes_are_not_replaced(tmp_path: Path) -> None:
    """Nor devices: whoever may write to their folder would lose them."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match="is a pipe or a device"), replacing(path):
        pass
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]
