"""Choice of the nearest contacts for a step, of a model that has many more contact slots."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.varying import alike

HALVINGS = 24
# By default all contact slots are solved for up to ``ALL``, of more the nearest ``FEW``. Slots that
# are not chosen at run time belong to known links, so that most of their rows are zeros: fused, all
# 52 slots of a human on a chair take half the operations of the nearest 40.
ALL, FEW = 64, 40


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chosen:
    """Choice of ``count`` of n contact slots, in their order."""

    slot: Array  # (count,) int: chosen slot; any where none was left
    used: Array  # (count,) bool: a slot was chosen
    place: Array  # (n,) int: index of each slot among the chosen ones, or -1
    dropped_contacts: Array  # () int: slots within the margin that were not chosen

    def gather(self, values: Array) -> Array:
        """Values of the chosen slots, (count, ...) from (n, ...); zeros where none was left."""
        used = self.used.reshape(-1, *[1] * (values.ndim - 1))
        return jnp.where(used, values[self.slot], 0)

    def scatter(self, values: Array) -> Array:
        """Values of all slots, (n, ...) from (count, ...); zeros where a slot was not chosen."""
        chosen = (self.place >= 0).reshape(-1, *[1] * (values.ndim - 1))
        return jnp.where(chosen, values[jnp.maximum(self.place, 0)], 0)


def contact_count(places: int, most: int | None) -> int:
    """Number of contact slots that a step solves for; ``most`` is None for the default.

    >>> [contact_count(*x) for x in ((52, None), (103, None), (103, 60), (52, 60))]
    [52, 40, 60, 52]
    """
    if most is None:
        most = ALL if places <= ALL else FEW
    return min(places, most)


def nearest(gap: Array, count: int, margin: Array | float) -> Chosen:
    """Choose the ``count`` slots with the least gap (n,) among those below the margin [m], or all.

    They keep their order, so that a solver that visits them one by one does so in the same way from
    step to step. A gap that is not a number is never chosen.
    """
    n = gap.shape[0]
    gap = jax.lax.stop_gradient(gap)
    margin = jnp.asarray(jax.lax.stop_gradient(margin), gap.dtype)
    near = gap < margin

    def more(bounds):
        _, high, tries = bounds
        return (jnp.sum(gap < high) > count) & (tries < HALVINGS)

    def halve(bounds):
        """Bisection step with the invariant that at most ``count`` gaps are below low."""
        low, high, tries = bounds
        middle = 0.5 * (low + high)
        few = jnp.sum(gap < middle) <= count
        low, high = jnp.where(few, middle, low), jnp.where(few, high, middle)
        return low, high, tries + 1

    least = jnp.min(gap, initial=margin, where=near)
    low, high, _ = jax.lax.while_loop(more, halve, alike((least, margin, jnp.asarray(0)), gap))
    # At most ``count`` lie below high, or so many lie between low and high that order decides.
    surely = gap < low
    perhaps = (gap < high) & ~surely
    room = count - jnp.sum(surely)
    chosen = surely | (perhaps & (jnp.cumsum(perhaps) <= room))
    filled = jnp.cumsum(chosen)  # number of chosen slots up to and including this one
    place = jnp.where(chosen, filled - 1, -1)
    slot = jnp.minimum(jnp.searchsorted(filled, np.arange(1, count + 1)), n - 1)
    used = jnp.arange(count) < filled[-1]
    dropped_contacts = jnp.sum(near) - filled[-1]
    return Chosen(slot=slot, used=used, place=place, dropped_contacts=dropped_contacts)
