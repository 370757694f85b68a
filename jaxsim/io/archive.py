"""NumPy archives (.npz) that may be damaged: read whole, or refused with one kind of error."""

import math
import os
import zipfile
from pathlib import Path

import numpy as np

LARGEST = 4 * 2**30  # bytes of all arrays: a few hundred bytes can claim any number of them
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class ArchiveError(ValueError):
    """A file that is no NumPy archive, or is damaged."""


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an .npz file by name; no pickled objects.

    Raises FileNotFoundError where there is no such file, ArchiveError, with the reason, for one
    that is damaged, is something else, or holds more than ``LARGEST`` bytes.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            held = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            _check_sizes(archive, held)
            with np.load(path, allow_pickle=False, max_header_size=10_000) as file:
                return {name.removesuffix(".npy"): file[name] for name in file.files}
    except ArchiveError:
        raise
    except Exception as error:  # a damaged file breaks the decoders in many ways
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise ArchiveError(f"{path} is no NumPy archive, or is damaged ({reason})") from error


def _check_sizes(archive: zipfile.ZipFile, held: list[zipfile.ZipInfo]) -> None:
    """ArchiveError unless each array is as large as its file, and all are of reasonable size."""
    total = sum(info.file_size for info in held)
    if total > LARGEST:
        raise ArchiveError(f"{archive.filename} claims to hold {total} bytes, over {LARGEST}")
    for info in held:
        with archive.open(info) as file:
            version = np.lib.format.read_magic(file)
            shape, _, dtype = _HEADERS[version](file)
            if dtype.hasobject:
                raise ArchiveError(f"{archive.filename}: {info.filename} holds pickled objects")
            if math.prod(shape) * dtype.itemsize > info.file_size:
                raise ArchiveError(
                    f"{archive.filename}: {info.filename} claims the shape {shape}, which its"
                    f" {info.file_size} bytes cannot hold"
                )
