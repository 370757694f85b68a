"""Lock of a result folder for one process at a time.

The lock is the operating system's, on a file in the folder, and ends with the process that holds
it, however it ends: what a killed process leaves behind blocks no other one.
"""

import contextlib
import json
import os
import platform
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK = ".lock"
_PLACE = 2**20  # of the byte that Windows locks, behind what is written

_held: dict[str, int] = {}  # folders that this process holds -> the thread
_guard = threading.Lock()


class FolderInUse(RuntimeError):
    """Error of a folder that another process, or another thread, is working in."""


@contextlib.contextmanager
def lock_folder(folder: str | os.PathLike) -> Iterator[None]:
    """Context that locks a folder, which is created if need be, and removed again if left empty.

    Within another block of the same thread it does nothing. On a file system without locks it
    warns, and goes on.

    Raises FolderInUse, naming the process, where another one holds it; then nothing has changed.
    """
    path, me = Path(folder).absolute(), threading.get_ident()
    key = os.path.realpath(path)
    with _guard:
        holder = _held.get(key)
        if holder is None:
            _held[key] = me
    if holder == me:
        yield
        return
    if holder is not None:
        raise FolderInUse(_message(path, "another thread of this process"))
    created = _missing(path)
    try:
        file = _acquire(path)
        try:
            yield
        finally:
            _release(path, file)
    finally:
        with _guard:
            del _held[key]
        for each in created:
            with contextlib.suppress(OSError):
                each.rmdir()


def holder(folder: str | os.PathLike) -> str | None:
    """Description of the process that holds a folder's lock.

    None where there is none, or the file system has no locks.
    """
    try:
        file = os.open(Path(folder) / LOCK, os.O_RDWR)
    except OSError:
        return None
    try:
        _lock(file)
    except BlockingIOError:
        return _who(file)
    except OSError:
        return None
    finally:
        os.close(file)  # which ends a lock, too
    return None


def _missing(path: Path) -> list[Path]:
    """Folders that would have to be created, the innermost first."""
    out = []
    while not os.path.lexists(path) and path != path.parent:
        out.append(path)
        path = path.parent
    return out


def _acquire(path: Path) -> int:
    """Open and lock the lock file; returns its descriptor."""
    name = path / LOCK
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # another process has just removed the empty folder
        try:
            try:
                _lock(file)
            except BlockingIOError:
                raise FolderInUse(_message(path, _who(file))) from None
            except OSError as error:
                warnings.warn(
                    f"{path}: this file system has no locks ({error.strerror}); see to it that no"
                    " other process works in the folder",
                    stacklevel=4,
                )
                return file
            # Whoever held it before may have removed the file in between.
            if _is(file, name):
                who = {"pid": os.getpid(), "host": platform.node(), "since": time.time()}
                os.ftruncate(file, 0)
                os.write(file, json.dumps(who).encode())
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _release(path: Path, file: int) -> None:
    with contextlib.suppress(OSError):  # Windows removes no open file
        if _is(file, path / LOCK):
            os.unlink(path / LOCK)
    os.close(file)
    if sys.platform == "win32":
        with contextlib.suppress(OSError):
            os.unlink(path / LOCK)


def _lock(file: int) -> None:
    """Lock an open file. Raises BlockingIOError where another process holds it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        finally:
            os.lseek(file, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is(file: int, name: Path) -> bool:
    """True if the file of this name is the open one."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(name))
    except OSError:
        return False


def _who(file: int) -> str:
    try:
        who: Any = json.loads(os.pread(file, 1000, 0) if hasattr(os, "pread") else b"")
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who["since"]))
        return f"process {who['pid']} on {who['host']}, since {began}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _message(path: Path, who: str) -> str:
    return (
        f"{path} is in use by {who}; wait until that has ended, or choose another folder."
        " Nothing was changed"
    )
