"""Who is still standing, and for how long, under any scheme and controller."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.model import Model, State
from jaxsim.model.part import main_part
from jaxsim.model.roles import FEET
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import Measure, advance
from jaxsim.simulation.scheme import Scheme
from jaxsim.solvers.status import Status
from optimize.running.summary import FALLEN

UNPHYSICAL = 1.0  # force without a source at the root: with it an unsolved run does not count [N]


class Outcome(NamedTuple):
    """Of one trial, or arrays of many."""

    stood: Array  # () bool: to the end, finite, and physical: see ``outlast``
    finite: Array  # () bool
    lasted: Array  # () part of the time that it stood, 0 to 1
    unsolved: Array | int = 0  # () frames while it stood whose optimisation was not solved
    root_residual: Array | float = 0.0  # () largest while it stood, see SynthesisInfo [N]


def goes_on(step: Array, steps: int, stands: Array) -> Array:
    """() bool: a trial is over with its last step, or when it falls."""
    return (step < steps) & stands


def outlast(
    model: Model,
    controller: Any,
    scheme: Scheme,
    first: tuple[State, Any],
    forces: Pushes | None,
    steps: int,
    measures: Mapping[str, Measure] | None = None,
) -> tuple[Outcome, dict[str, Any]]:
    """Outcome of ``steps`` steps from ``begin`` on, and measures folded while it stood.

    It stands while the character's centre of mass (of several, that of each) is as high over its
    lower foot (over the ground at height 0, of a body without feet) as ``FALLEN`` of that at the
    start, and while it is physical: a frame whose optimisation was not solved is counted, and with
    one in a run its root residual is at most ``UNPHYSICAL``. A trial ends with a fall; while others
    of its batch go on it waits in its start unpushed: its last gasps would cost them time.
    """
    measures = measures or {}
    dtype = first[0].q.dtype
    several = getattr(scheme, "characters", None)
    parts = (main_part(model.topology),) if several is None else several(model)

    def com_height(obs):
        """(characters,)"""
        found = []
        for part in parts:
            mass, com = model.mass[part.links], obs.kin.com[part.links, 2]
            high, feet = jnp.sum(mass * com) / jnp.sum(mass), part.topology.parts(FEET)
            found.append(high - jnp.min(com[np.array(feet, int)]) if feet else high)
        return jnp.stack(found)

    def one(carry):
        step, stood_for, now, height, stands, finite, unsolved, worst, folded = carry
        felt = forces
        if forces is not None:
            felt = replace(forces, force=jnp.where(stands, forces.force, 0.0))
        after, sample = advance(model, controller, scheme, now[0], now[1], felt)
        com = com_height(sample.obs)
        height = jnp.where(jnp.isnan(height), com, height)
        whole = jnp.isfinite(after.q).all() & jnp.isfinite(after.qd).all()
        finite = finite & (whole | ~stands)
        counts = stands & whole
        status = getattr(sample.info, "status", None)
        if status is not None:
            unsolved = unsolved + jnp.where(counts & (status != Status.OK), 1, 0)
        residual = getattr(sample.info, "root_residual", None)
        if residual is not None:
            worst = jnp.where(counts, jnp.maximum(worst, residual), worst)
        folded = {
            name: jax.tree.map(
                lambda new, old: jnp.where(counts, new, old).astype(old.dtype),
                measure.update(folded[name], sample),
                folded[name],
            )
            for name, measure in measures.items()
        }
        physical = (unsolved == 0) | (worst <= UNPHYSICAL)
        stands = stands & whole & physical & (com > FALLEN * height).all()
        then = after, sample.memory
        now = jax.tree.map(lambda new, old: jnp.where(stands, new, old), then, first)
        lasted = step + 1, stood_for + stands
        return *lasted, now, height, stands, finite, unsolved, worst, folded

    yes, zero, none = jnp.asarray(True), jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    begun_folds = {
        name: jax.tree.map(lambda x: jnp.asarray(x, dtype), measure.initial)
        for name, measure in measures.items()
    }
    unknown = jnp.full(len(parts), jnp.nan, dtype)
    begun = none, none, first, unknown, yes, yes, none, zero, begun_folds
    end = jax.lax.while_loop(lambda carry: goes_on(carry[0], steps, carry[4]), one, begun)
    _, stood_for, _, _, stood, finite, unsolved, worst, folded = end
    return Outcome(stood, finite, stood_for.astype(dtype) / steps, unsolved, worst), folded
