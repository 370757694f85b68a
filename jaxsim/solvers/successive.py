"""Successive impacts, each of a single contact (Newton's cradle).

Where bodies touch in a row, an impact at one end goes through it contact by contact: the last ball
of Newton's cradle leaves, the others rest. A problem of all contacts at once has no such solution.
Each visit of an approaching contact reflects its normal velocity and lets friction act within
Coulomb's bound; visits repeat until no contact approaches. Every pair of impulses conserves
momentum, and no visit adds energy. Source: Smith, Kaufman, Vouga, Tamstorf and Grinspun,
Reflections on simultaneous impact (2012), section 3 (the model of Gauss and Seidel).
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_divide
from jaxsim.solvers.pgs import CONE

PASSES = 32  # at most; a pass moves an impact along the contacts' order, or one contact against it


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Impacts:
    """Contacts that may have an impact, in whitened coordinates y (see ``solvers.pgs``)."""

    x: Array  # (nc, K, nv) whitened rows of the normal and the tangents
    given: Array  # (nc,) contribution of prescribed motion to a normal velocity [m/s]
    threshold: Array  # (nc,) a normal velocity below it is an impact [m/s]
    reaches: Array  # (nc,) normal velocity after an impact without restitution, 0 or less [m/s]
    restitution: Array  # (nc,)
    friction: Array  # (nc,)


@jax.custom_jvp
def after_impacts(impacts: Impacts, y: Array) -> tuple[Array, Array]:
    """Velocity y (nv,) after all impacts, and their impulses (nc, K) [N s].

    There are impacts only if a contact with restitution hits: landings without one are left to the
    solver that follows, and so are contacts that still approach after ``PASSES`` passes. The
    derivative is that of the impacts that happened, in their order.
    """
    impacts = _begun(impacts, y)

    def goes_on(carry):
        count, _, _, hit = carry
        return hit & (count < PASSES)

    def again(carry):
        count, y, impulse, _ = carry
        y, impulse = _pass(impacts, y, impulse)
        return count + 1, y, impulse, jnp.any(_hits(impacts, y))

    none = jnp.zeros(impacts.x.shape[:2], y.dtype)
    _, y, impulse, _ = jax.lax.while_loop(goes_on, again, (0, y, none, jnp.any(_hits(impacts, y))))
    return y, impulse


@after_impacts.defjvp
def _after_impacts_jvp(primals, tangents):
    def by_scan(impacts, y):
        impacts = _begun(impacts, y)
        none = jnp.zeros(impacts.x.shape[:2], y.dtype)
        carry, _ = jax.lax.scan(
            lambda now, _: (_pass(impacts, *now), None), (y, none), None, length=PASSES
        )
        return carry

    return jax.jvp(by_scan, primals, tangents)


def _hits(impacts: Impacts, y: Array) -> Array:
    """(nc,) bool: contacts that approach faster than their threshold."""
    return matmul(impacts.x[:, 0], y) + impacts.given < impacts.threshold


def _begun(impacts: Impacts, y: Array) -> Impacts:
    """Disable all impacts unless a contact with restitution hits."""
    bounces = jnp.any(_hits(impacts, y) & (impacts.restitution > 0))
    return replace(impacts, threshold=jnp.where(bounces, impacts.threshold, -jnp.inf))


def _pass(impacts: Impacts, y: Array, impulse: Array) -> tuple[Array, Array]:
    """Visit every contact once, in order."""

    def visit(y, contact):
        impact, before = contact
        gained = _blow(impact, y)
        return y + matmul(gained, impact.x), before + gained

    y, impulse = jax.lax.scan(visit, y, (impacts, impulse))
    return y, impulse


def _blow(impact: Impacts, y: Array) -> Array:
    """(K,) impulse of one contact; zeros where it does not hit."""
    size = jnp.sum(impact.x * impact.x, axis=-1)
    approach = jnp.sum(impact.x[0] * y) + impact.given
    hits = approach < impact.threshold
    leaves = jnp.where(impact.restitution > 0, -impact.restitution * approach, impact.reaches)
    normal = jnp.where(hits, safe_divide(leaves - approach, size[0]), 0)
    after = y + normal * impact.x[0]
    slide = safe_divide(-matmul(impact.x[1:], after), jnp.max(size[1:]))
    tangents = CONE.tangents([slide[k] for k in range(slide.shape[0])], impact.friction * normal)
    return jnp.stack([normal, *tangents])
