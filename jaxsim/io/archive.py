"""Reader of NumPy archives (.npz): named arrays, or one kind of error for damaged files."""

import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

LARGEST = 256 * 2**20  # bytes of an array: a few hundred bytes can claim any number of them
LARGEST_SUM = 2**30  # of all that are read
HEADER = 10_000  # characters that describe an array
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class ArchiveError(ValueError):
    """A file that is no NumPy archive, or is damaged."""


def read_arrays(
    path: str | os.PathLike[str], largest: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Read arrays of an .npz file by name, without pickled objects.

    largest: names to read, with the most bytes that each may have (of the first pattern that fits,
    such as "kernel_*"); the rest is skipped. None: all, up to ``LARGEST``. Size and type are
    checked before an array is unpacked.

    Raises FileNotFoundError if the file does not exist, ArchiveError, with the reason, if it is
    damaged, of another kind, or claims more bytes, of all arrays more than ``LARGEST_SUM``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            named = list(_named(archive, {"*": LARGEST} if largest is None else largest))
            total = sum(_checked_size(archive, name, info, most) for name, info, most in named)
            if total > LARGEST_SUM:
                raise ArchiveError(f"{path} claims {total} bytes, over {LARGEST_SUM}")
            return {name: _read(archive, info) for name, info, _ in named}
    except ArchiveError:
        raise
    except Exception as error:  # a damaged file breaks the decoders in many ways
        raise _damaged(path, error) from error


def array_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of the arrays of an .npz file; none is unpacked.

    Raises FileNotFoundError if the file does not exist, ArchiveError for another kind of file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(name for name, _, _ in _named(archive, {"*": LARGEST}))
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ArchiveError:
    reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return ArchiveError(f"{path} is no NumPy archive, or is damaged ({reason})")


def _named(
    archive: zipfile.ZipFile, largest: Mapping[str, int]
) -> Iterator[tuple[str, zipfile.ZipInfo, int]]:
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        fitting = (most for pattern, most in largest.items() if fnmatchcase(name, pattern))
        most = next(fitting, None) if name != info.filename else None
        if most is not None:
            yield name, info, most


def _checked_size(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, most: int) -> int:
    """Size of an array [bytes].

    Raises ArchiveError if its file cannot hold them, or they are more than ``most``.
    """
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = _HEADERS[version](file, max_header_size=HEADER)
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ArchiveError(f"{archive.filename}: {name} holds pickled objects")
    if size > info.file_size:
        raise ArchiveError(
            f"{archive.filename}: {name} claims the shape {shape}, which its {info.file_size} bytes"
            " cannot hold"
        )
    if size > most:
        raise ArchiveError(f"{archive.filename}: {name} claims {size} bytes, over {most}")
    return size


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False, max_header_size=HEADER)
