"""Files written as a whole or not at all, and errors of the disk that name the file."""

import contextlib
import io
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Replace a file as a whole: after an interrupt or a crash it is the old or the new one.

    Written to a neighbour first, through to the disk, which is then renamed. Raises
    FileNotFoundError if the folder does not exist, OSError that names the file where the disk is
    full or the file cannot be written; then the old file is there as it was.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path.name}: no folder {path.parent}")
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with naming(path):
            with open(part, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return path


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add ``path`` to errors of the disk within the block: those of an open file name none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    """Write a compressed NumPy archive, as ``write_bytes`` does."""
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    return write_bytes(path, data.getvalue())


def try_folder(path: str | os.PathLike[str]) -> None:
    """Check that a folder can be written, or created, and leave nothing behind.

    For use before a long run. Raises an OSError that names the obstacle.
    """
    path = Path(path)
    there, new_folders = path, []
    while not os.path.lexists(there) and there != there.parent:
        new_folders.append(there)
        there = there.parent
    advice = "choose another folder"
    if not there.is_dir():
        what = "is a file" if there == path else f"cannot be made: {there} is a file"
        if there.is_symlink() and not there.exists():
            what = f"cannot be made: {there} is a link to what is not there"
        raise FileExistsError(f"{path} {what}; {advice}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}; {advice}") from error
    finally:
        for folder in new_folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
