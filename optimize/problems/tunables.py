"""A named selection of scalars with bounds, taken from any pytree of arrays.

What is tuned is chosen outside the model: masses, friction, gains, weights and the numbers of a
script are all read and written the same way, by path.

    tunables = Tunables.select(tree, {
        "model.friction": (0.2, 1.5),                # every element of the array there
        "controller.values[3]": (-180.0, 180.0),     # one element
        "controller.gains[0,1]": (0.0, 50.0, 5.0),   # lower, upper, scale
        "controller.weights[1,2]": (0.1, 10.0, "log"),  # the optimiser sees its logarithm
    })
    tree = tunables.write(tree, tunables.decode(z))

The optimiser works on dimensionless coordinates z: zero at the initial values, one unit = `scale`.

Bounds are enforced by a smooth change of coordinates (the idea of the boundary transformation in
N. Hansen's CMA-ES codes), not by clipping and not by plain reflection. With clipping, everything
beyond a bound has the same fitness: the mean of a search distribution drifts off with nothing to
call it back, and gradients vanish there. Plain reflection has a kink at the bound, where fitness
seen by the optimiser is not differentiable. Here x(z) is linear inside, runs quadratically into
the bound over a margin of 5 % of the range, where it arrives with slope zero, and turns back
smoothly beyond it. Every z is feasible, and a mean that left the box meets the landscape again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.tree_paths import Entry, element_name, leaf_of, leaves_by_path, resolve

_MARGIN = 0.05  # part of the range, on each side, over which x(z) bends into the bound [-]


@dataclasses.dataclass(frozen=True, eq=False)
class Tunables:
    """Selection of n scalars of a pytree, with bounds. Build with `select`.

    names    one path per scalar
    lower, upper, scale, initial    (n,) float64, in each scalar's own unit
    entries  where the scalars are
    log      (n,) bool: whose coordinate is the logarithm of the number; its scale is a factor e
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    scale: np.ndarray
    initial: np.ndarray
    entries: tuple[Entry, ...]
    log: np.ndarray

    @classmethod
    def select(cls, tree: Any, selection: Mapping[str, Sequence]) -> Tunables:
        """Select the scalars to tune by path.

        tree       pytree (dataclasses, dicts, named tuples, sequences) whose leaves are arrays
        selection  path -> (lower, upper) or (lower, upper, scale), each a number or an array that
                   broadcasts to what is selected; scale "log" for positive numbers.
                   A path is made of `.name` (attribute or key),
                   `[i]` (position in a sequence, or element of the array at the end), `[i,j]`, and
                   `["key"]` for keys that are no plain names. A path that ends at an array selects
                   all of it. The default scale is upper - lower, so that a step size of 0.2 means
                   a fifth of the range.

        Raises KeyError for an unknown path (the message lists the nearest), IndexError for an
        element out of range, ValueError for bad bounds, scales or values, and for duplicates.
        """
        if not selection:
            raise ValueError("nothing is selected: give at least one path with its bounds")
        leaves = leaves_by_path(tree)
        names, columns, entries, log = [], [], [], []
        for path, spec in selection.items():
            entry = resolve(path, leaves)
            value = _floating(leaves[entry.leaf], entry)
            entries.append(entry)
            names.extend(element_name(entry, flat) for flat in entry.flat)
            selected_shape = entry.shape if len(entry.flat) == value.size else (len(entry.flat),)
            logarithmic = len(spec) == 3 and isinstance(spec[2], str)
            bounds = _bounds(path, spec, selected_shape)
            own = [element_name(entry, flat) for flat in entry.flat]
            columns.append(_check_values(path, value.reshape(-1)[list(entry.flat)], own, *bounds))
            log += [logarithmic] * len(entry.flat)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"selected more than once: {', '.join(twice)}")
        initial, lower, upper, scale = np.concatenate(columns, axis=1)
        for array in (initial, lower, upper, scale):
            array.setflags(write=False)
        return cls(tuple(names), lower, upper, scale, initial, tuple(entries), np.array(log))

    @property
    def size(self) -> int:
        """Number n of scalars."""
        return len(self.names)

    def read(self, tree: Any) -> jax.Array:
        """Read the selected scalars of `tree`, (n,), in their own units.

        Traceable, differentiable.
        """
        leaves = leaves_by_path(tree)
        parts = []
        for entry in self.entries:
            leaf = leaf_of(leaves, entry)
            parts.append(jnp.ravel(leaf)[np.asarray(entry.flat)])
        return jnp.concatenate(parts)

    def write(self, tree: Any, x: jax.Array) -> Any:
        """Copy of `tree` with the selected scalars replaced by x (n,), in their own units.

        Pure; works under jit, under vmap over x (see `axes`), and is differentiable in x and tree.
        Dtypes of the leaves are kept. Bounds are not applied: x comes from `decode`.
        """
        x = jnp.asarray(x)
        if x.shape != (self.size,):
            raise ValueError(f"x has shape {x.shape}, expected ({self.size},); vmap over a batch")
        leaves = leaves_by_path(tree)
        start = 0
        for entry in self.entries:
            leaf = jnp.asarray(leaf_of(leaves, entry))
            values = x[start : start + len(entry.flat)].astype(leaf.dtype)
            flat = jnp.ravel(leaf).at[np.asarray(entry.flat)].set(values)
            leaves[entry.leaf] = flat.reshape(leaf.shape)
            start += len(entry.flat)
        return jax.tree.unflatten(jax.tree.structure(tree), list(leaves.values()))

    def axes(self, tree: Any) -> Any:
        """The vmap axes of a batch of written trees: 0 where a leaf is tuned, else None.

        `jax.vmap(tunables.write, (None, 0), axes)(tree, x)` then copies only tuned leaves, and the
        same `axes` serve as in_axes of what uses the batch.
        """
        tuned = {entry.leaf for entry in self.entries}
        axes = [0 if path in tuned else None for path in leaves_by_path(tree)]
        return jax.tree.unflatten(jax.tree.structure(tree), axes)

    def encode(self, x: Sequence[float] | np.ndarray) -> np.ndarray:
        """Optimiser coordinates z (..., n) [scale] of values x (..., n) in their own units.

        Runs on the host in float64. Raises ValueError for a wrong shape and for values that are
        not finite or outside their bounds, naming them.
        """
        x = np.asarray(x, dtype=np.float64)
        self._check_shape(x.shape, "x")
        bad = ~((x >= self.lower) & (x <= self.upper)).reshape(-1, self.size)
        if bad.any():
            listed = ", ".join(self.names[i] for i in np.flatnonzero(bad.any(axis=0)))
            raise ValueError(f"not a number or outside the bounds: {listed}")
        lower, upper, origin = self._inner()
        inside = np.where(self.log, np.log(np.where(self.log, x / self._one, 1.0)), x)
        return (_unbound(inside, lower, upper) - origin) / self.scale

    def decode(self, z: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
        """Values x (..., n), always within the bounds, of optimiser coordinates z (..., n).

        A NumPy z gives NumPy float64, and raises ValueError where it is not finite. A JAX z
        gives a JAX array of its dtype, traceable and differentiable; the derivative is `scale`
        inside, falls to zero at a bound, and changes sign beyond it. decode(0) is `initial`.
        """
        xp = jnp if isinstance(z, jax.Array) else np
        if xp is np or not jnp.issubdtype(z.dtype, jnp.floating):
            z = xp.asarray(z, dtype=float)
        self._check_shape(z.shape, "z")
        if xp is np and not np.isfinite(z).all():
            raise ValueError("z holds values that are not finite")
        constants = (self.scale, self._one, self.lower, self.upper, *self._inner())
        scale, one, least, most, lower, upper, origin = (
            xp.asarray(c, dtype=z.dtype) for c in constants
        )
        inside = _bound(xp, origin + scale * z, lower, upper)
        factor = one * xp.exp(xp.where(self.log, inside, 0.0))
        return xp.where(self.log, xp.clip(factor, least, most), inside)

    @property
    def _one(self) -> np.ndarray:
        """Reference (n,) of logarithmic numbers, their initial values; 1 for the others.

        The coordinate of a logarithmic number is the logarithm of its ratio to the reference.
        """
        return np.where(self.log, self.initial, 1.0)

    def _inner(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds and initial values as the change of coordinates sees them."""
        ratio = [np.where(self.log, x / self._one, 1.0) for x in (self.lower, self.upper)]
        lower, upper = (
            np.where(self.log, np.log(r), x) for r, x in zip(ratio, (self.lower, self.upper))
        )
        return lower, upper, _unbound(np.where(self.log, 0.0, self.initial), lower, upper)

    def _check_shape(self, shape: tuple[int, ...], label: str) -> None:
        if not shape or shape[-1] != self.size:
            raise ValueError(f"{label} has shape {shape}, expected (..., {self.size})")


# ---- bounds


def _bound(xp: ModuleType, y: Any, lower: Any, upper: Any) -> Any:
    """Map any y (..., n) into [lower, upper]; the identity except near and beyond the bounds."""
    margin = _MARGIN * (upper - lower)
    first, last = lower - margin, upper + margin
    period = 2.0 * (last - first)
    t = xp.mod(y - first, period)
    folded = first + xp.minimum(t, period - t)
    y = xp.where((y < first) | (y > last), folded, y)
    low = lower + (y - first) ** 2 / (4.0 * margin)
    high = upper - (y - last) ** 2 / (4.0 * margin)
    x = xp.where(y < lower + margin, low, xp.where(y > upper - margin, high, y))
    return xp.clip(x, lower, upper)  # rounding only


def _unbound(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Inverse of ``_bound`` for x within the bounds: the y nearest the middle."""
    margin = _MARGIN * (upper - lower)
    low = lower - margin + 2.0 * np.sqrt(margin * (x - lower))
    high = upper + margin - 2.0 * np.sqrt(margin * (upper - x))
    return np.where(x < lower + margin, low, np.where(x > upper - margin, high, x))


def _bounds(path: str, spec: Sequence, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Checked lower, upper and scale, each flat float64 of the selected elements."""
    if isinstance(spec, str) or not isinstance(spec, Sequence) or len(spec) not in (2, 3):
        raise ValueError(f"{path}: expected (lower, upper) or (lower, upper, scale), got {spec!r}")
    logarithmic = len(spec) == 3 and isinstance(spec[2], str) and spec[2] == "log"
    try:
        lower, upper, *rest = (
            np.broadcast_to(np.asarray(item, dtype=np.float64), shape).reshape(-1)
            for item in (spec[:2] if logarithmic else spec)
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: bounds and scale must fit the shape {shape}: {error}") from None
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise ValueError(f"{path}: bounds must be finite, got lower {lower}, upper {upper}")
    if not (lower < upper).all():
        raise ValueError(
            f"{path}: lower must be below upper, got lower {lower}, upper {upper}"
            " (a number that should stay fixed is left out of the selection)"
        )
    if logarithmic and not (lower > 0.0).all():
        raise ValueError(f"{path}: a logarithmic number has a positive lower bound, got {lower}")
    scale = rest[0] if rest else np.ones_like(lower) if logarithmic else upper - lower
    if not (np.isfinite(scale).all() and (scale > 0.0).all()):
        raise ValueError(f"{path}: scale must be positive and finite, got {scale}")
    return lower, upper, scale


def _check_values(
    path: str,
    value: np.ndarray,
    names: list[str],
    lower: np.ndarray,
    upper: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    """Rows (4, k) float64: value, lower, upper, scale. The value must be within its bounds."""
    if not np.isfinite(value).all():
        raise ValueError(f"{path}: the value is not finite: {value}")
    # Compared in the precision of the leaf: float32(0.2) is a little above 0.2.
    out = (value < lower.astype(value.dtype)) | (value > upper.astype(value.dtype))
    if out.any():
        bad = np.flatnonzero(out)
        shown = ", ".join(f"{names[k]} = {value[k]:g}" for k in bad[:4])
        more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
        hint = ""
        if len(value) > len(bad) and (value[out] == 0).all():
            first = 1 + int(bad[-1])
            tail = first < len(value) and len(bad) == first
            instead = f"the slice {path}[{first}:]" if tail else "a slice"
            hint = f" (zeros there belong to an unactuated root: select {instead}, or a label)"
        raise ValueError(
            f"{path}: {shown}{more} is outside its bounds"
            f" [{lower[bad[0]]:g}, {upper[bad[0]]:g}]{hint}"
        )
    return np.stack([np.clip(value.astype(np.float64), lower, upper), lower, upper, scale])


def _floating(leaf: Any, entry: Entry) -> np.ndarray:
    value = np.asarray(leaf)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise ValueError(f"{entry.leaf} is of type {value.dtype}; only floating-point is tuned")
    if not entry.flat:
        raise ValueError(f"{entry.leaf} has shape {entry.shape}: there is nothing to tune")
    return value
