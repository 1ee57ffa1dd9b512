import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from plica.errors import FileFormatError
from plica.files.paths import check_can_create, filling, replacing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(target: AbstractContextManager[Path]) -> None:
    """Fail after something was written."""
    with target as temporary:
        path = temporary / "a" if temporary.is_dir() else temporary
        path.write_text("half")
        raise ZeroDivisionError


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


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(FileFormatError, match=r"no permission to write in .*; choose another output folder"):
        check_can_create(tmp_path / "demo")
