"""Storage of a sweep: arrays in memory, or Zarr in a folder, written box by box."""

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimize.results.folder import RESTORE, RunFolder

STORE, PROGRESS = "sweep.zarr", "progress.json"
START, SAMPLE, FAILED = "start", "sample", "failed"
COORDS, MEASURES = "coordinates_in_order", "measures_in_order"  # attributes of the store
AT_ONCE = 2**28  # that are read at once, so that damage shows [bytes]
INSIDE = 2**32  # limit of a sweep in memory [bytes]
EXTRA = 'pip install "jaxsim-characters[results]"'


@dataclass(frozen=True)
class SweepLayout:
    """Layout of a result: dimensions, coordinates and units.

    dims, shape: of every measure; box: shape of what is written at a time. coords: name -> (dims,
    values, attributes). units: measure -> unit. attrs: of the whole.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    box: tuple[int, ...]
    coords: Mapping[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]
    units: Mapping[str, str]
    attrs: Mapping[str, Any]

    @property
    def bytes(self) -> int:
        """Size of all measures and coordinates, uncompressed."""
        each = 8 * len(self.units) + 1
        return math.prod(self.shape) * each + sum(v.nbytes for _, v, _ in self.coords.values())

    def variables(self) -> dict[str, tuple[str, Any, dict[str, str]]]:
        """Variables by name: dtype, fill value where nothing was computed yet, attributes."""
        found = {
            name: ("float64", math.nan, {"units": unit} if unit else {})
            for name, unit in self.units.items()
        }
        told = {"long_name": "the motion diverged; its measures are NaN"}
        return {**found, FAILED: ("bool", False, told)}


def need_xarray() -> Any:
    """Import xarray. Raises ImportError, naming the extra."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f"sweeps need xarray: {EXTRA}", name=error.name) from error
    return xarray


def need_zarr() -> Any:
    """Import zarr. Raises ImportError, naming the extra."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            f"to keep a sweep in a folder needs zarr: {EXTRA}", name=error.name
        ) from error
    return zarr


def check_room(layout: SweepLayout, out: str | os.PathLike | None) -> None:
    """Raise ValueError where the sweep would not fit in memory, or on the disk."""
    if out is None:
        if layout.bytes > INSIDE:
            raise ValueError(
                f"the sweep needs {_size(layout.bytes)} of memory; give out=, a folder, and only a"
                " chunk of it is in memory"
            )
        return
    place = Path(out).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if layout.bytes > free:
        raise ValueError(
            f"the sweep needs up to {_size(layout.bytes)} of disk, and {place} has"
            f" {_size(free)} free; give fewer values or measures, or another folder"
        )


def _size(count: float) -> str:
    return f"{count / 1e9:.3g} GB"


def in_memory(layout: SweepLayout) -> dict[str, np.ndarray]:
    """Empty arrays by name."""
    return {
        n: np.full(layout.shape, fill, dtype) for n, (dtype, fill, _) in layout.variables().items()
    }


def dataset_of(layout: SweepLayout, arrays: Mapping[str, np.ndarray]) -> Any:
    """Convert arrays to an xarray.Dataset."""
    xarray = need_xarray()
    variables = layout.variables()
    data = {name: (layout.dims, array, variables[name][2]) for name, array in arrays.items()}
    return xarray.Dataset(data, dict(layout.coords), dict(layout.attrs))


def create_store(folder: RunFolder, layout: SweepLayout) -> None:
    """Create an empty store; its progress is written last."""
    zarr = need_zarr()
    shutil.rmtree(folder / STORE, ignore_errors=True)
    about = {**layout.attrs, COORDS: [*layout.coords], MEASURES: [*layout.units]}
    root = zarr.open_group(folder / STORE, mode="w", attributes=about)
    for name, (dims, values, attrs) in layout.coords.items():
        array = root.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            dimension_names=dims,
            attributes=attrs,
        )
        array[...] = values
    for name, (dtype, fill, attrs) in layout.variables().items():
        root.create_array(
            name,
            shape=layout.shape,
            chunks=layout.box,
            dtype=dtype,
            fill_value=fill,
            dimension_names=layout.dims,
            attributes=attrs,
        )
    write_progress(folder, 0)


def open_arrays(folder: RunFolder) -> Any:
    """Open the store's arrays by name for writing. Raises ValueError where it is damaged."""
    try:
        return need_zarr().open_group(folder / STORE, mode="r+")
    except Exception as error:
        raise ValueError(f"{folder / STORE} cannot be opened ({error}); {RESTORE}") from error


def open_store(folder: RunFolder) -> Any:
    """Open the store as an xarray.Dataset, read into memory up to ``AT_ONCE`` bytes, else lazily.

    Raises ValueError where it is damaged.
    """
    xarray = need_xarray()
    need_zarr()
    try:
        found = xarray.open_zarr(folder / STORE, chunks=None, consolidated=False)
        # A folder has no order, so the store's attributes keep that of the names.
        coords, measures = found.attrs.pop(COORDS), found.attrs.pop(MEASURES)
        ordered = xarray.Dataset(
            {name: found.variables[name] for name in [*measures, FAILED]},
            {name: found.variables[name] for name in coords},
            found.attrs,
        )
        return ordered.load() if ordered.nbytes <= AT_ONCE else ordered
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{folder / STORE} cannot be read ({reason}); {RESTORE}") from error


def write_progress(folder: RunFolder, boxes: int) -> None:
    """Write the number of complete boxes."""
    folder.write_json(PROGRESS, {"boxes": boxes})


def read_progress(folder: RunFolder, most: int) -> int | None:
    """Read the number of complete boxes; None where the store was not fully created."""
    if not (folder / PROGRESS).is_file():
        return None
    held = folder.read_json(PROGRESS)
    boxes = held.get("boxes") if isinstance(held, dict) else None
    if not (isinstance(boxes, int) and 0 <= boxes <= most):
        raise ValueError(f"{folder / PROGRESS} holds no number of boxes up to {most}; {RESTORE}")
    return boxes
