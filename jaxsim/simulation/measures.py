"""Measures folded over the steps of a rollout, and the sample of a step that they read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.model import Model, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sample:
    """One step for measures and records: the state at its start, the command, and the info."""

    model: Model
    state: State
    obs: Any  # of the scheme: Observation, or EffectorObservation
    memory: Any  # of the controller, after the update
    control: Any  # command of the controller: Control, or tasks
    info: Any  # StepInfo, EventInfo or SynthesisInfo
    dt: Array


class Measure(NamedTuple):
    """Number folded over a rollout: ``update(value, sample) -> value`` from ``initial``."""

    initial: Any
    update: Callable[[Any, Sample], Any]


def total(rate: Callable[[Sample], Array], initial: Any = 0.0) -> Measure:
    """Time integral of a function of the sample; initial: zeros of its shape, if it is an array.

    >>> import jax.numpy as jnp
    >>> travel = total(lambda sample: sample.obs.com_velocity, jnp.zeros(3))
    """
    return Measure(initial, lambda value, sample: value + sample.dt * rate(sample))


def largest(function: Callable[[Sample], Array], initial: Any = -jnp.inf) -> Measure:
    """Maximum of a function of the sample, of an array elementwise; initial: see ``total``."""
    return Measure(initial, lambda value, sample: jnp.maximum(value, function(sample)))


def final(function: Callable[[Sample], Array], initial: Any = 0.0) -> Measure:
    """Value of a function at the last sample; initial: see ``total``."""
    return Measure(initial, lambda value, sample: function(sample))


def share(when: Callable[[Sample], Array]) -> Measure:
    """Time [s] in which a condition () bool holds."""
    return total(lambda sample: jnp.asarray(when(sample), float))


def count(when: Callable[[Sample], Array]) -> Measure:
    """() int: number of steps in which a condition () bool holds."""
    return Measure(0, lambda value, sample: value + jnp.where(when(sample), 1, 0))


def contact_measures(model: Model) -> dict[str, Measure]:
    """Measures of contact schemes: penetration [m], residual, contacts without rows, force, grips.

    Force is the largest one [N]; of grips it is (ng,) when each broke [s].
    """

    def torn(when: Array, sample: Sample) -> Array:
        broken = sample.state.broken
        first = broken & ~jnp.isfinite(when) if broken is not None else when < -jnp.inf
        return jnp.where(first, sample.state.time, when)

    def strongest(sample: Sample) -> Array:
        return jnp.sqrt(jnp.max(jnp.sum(sample.info.contact_force**2, axis=-1), initial=0.0))

    def at_first(sample: Sample) -> Array:
        return jnp.where(sample.state.time <= 0, sample.info.penetration, 0.0)

    return {
        "largest_penetration": largest(lambda sample: sample.info.penetration, 0.0),
        "largest_residual": largest(lambda sample: sample.info.residual, 0.0),
        "largest_contact_force": largest(strongest, 0.0),
        "most_left_out": largest(lambda sample: sample.info.dropped_contacts, 0.0),
        "first_penetration": largest(at_first, 0.0),
        "left_out_time": share(lambda sample: sample.info.dropped_contacts > 0),
        "torn_at": Measure(jnp.full(model.topology.n_grips, jnp.inf), torn),
    }
