"""Many steps under one controller: a scan that folds measures in as it goes.

Memory does not grow with the length of the rollout unless a record of every n-th step is asked
for. One function simulates one character; batches are ``jax.vmap`` of it, and with the fused back
end a whole batch is one kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.fused import choose_backend, fuse_one
from jaxsim.model import Model, State
from jaxsim.simulation.events import EventConfig, EventInfo, event_step, ready
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.step import Control, Observation, StepConfig, StepInfo, observe, step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sample:
    """One step as measures and records see it: the state at its start, and what then happened."""

    model: Model
    state: State
    seen: Observation
    memory: Any
    control: Control
    info: StepInfo | EventInfo
    dt: Array


class Measure(NamedTuple):
    """A quantity folded over a rollout: ``update(value, sample) -> value`` from ``initial``."""

    initial: Any
    update: Callable[[Any, Sample], Any]


def total(rate: Callable[[Sample], Array]) -> Measure:
    """The time integral of a function of the sample."""
    return Measure(0.0, lambda value, sample: value + sample.dt * rate(sample))


def largest(function: Callable[[Sample], Array], initial: float = -jnp.inf) -> Measure:
    """The maximum of a function of the sample."""
    return Measure(initial, lambda value, sample: jnp.maximum(value, function(sample)))


def final(function: Callable[[Sample], Array], initial: Any = 0.0) -> Measure:
    """The function of the last sample."""
    return Measure(initial, lambda value, sample: function(sample))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RolloutResult:
    """What a rollout returns; with a leading batch axis under vmap."""

    state: State
    memory: Any
    measures: dict[str, Any]
    record: Any  # stacked records, one every ``record_every`` steps; None if none was asked for
    finite: Array  # () bool: the state stayed finite; of a batch, see ``failed_members``


def rollout(
    model: Model,
    controller: Any,
    state: State,
    config: StepConfig | EventConfig,
    steps: int,
    measures: Mapping[str, Measure] | None = None,
    record: Callable[[Sample], Any] | None = None,
    record_every: int = 1,
    backend: str = "fused",
    pushes: Pushes | None = None,
) -> RolloutResult:
    """Simulate ``steps`` steps of one character, under forces from outside if ``pushes`` says so.

    config: of ``step`` (velocities, one solve a step) or of ``event_step`` (accelerations, impacts,
    parts of a step). controller: see controllers.protocol; measures by name; record(sample) is kept
    for the first of every ``record_every`` steps, which must divide ``steps``. Raises ValueError
    where it does not. A member of a batch that goes non-finite stays so and does not touch the
    others.

    backend: "fused" runs all steps, under ``vmap`` of all members, as one kernel (see
    ``jaxsim.fused``; of the model, whatever is known when it is traced is built in), "xla" as a
    scan. They agree to rounding. Forward-mode derivatives need "xla". Raises FuseError where the
    controller, a measure or the record cannot be fused.
    """
    if record is not None and steps % record_every:
        raise ValueError(f"record_every={record_every} does not divide steps={steps}")
    measures = dict(measures or {})

    def simulate(controller, state, config, pushes):
        return _simulate(
            model, controller, state, config, pushes, steps, measures, record, record_every
        )

    if choose_backend(backend) == "fused":
        return _fused(simulate, controller, state, config, pushes)
    return simulate(controller, state, config, pushes)


def _fused(simulate, *arguments) -> RolloutResult:
    """Arrays are arguments of the kernel; Python numbers, such as a fixed time step, built in."""
    leaves, tree = jax.tree.flatten(arguments)
    arrays = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]

    def of_arrays(given):
        full = list(leaves)
        for k, array in zip(arrays, given):
            full[k] = array
        return simulate(*jax.tree.unflatten(tree, full))

    return fuse_one(of_arrays)([leaves[k] for k in arrays])


def _simulate(
    model, controller, state, config, pushes, steps, measures, record, record_every
) -> RolloutResult:
    """``rollout`` in plain JAX."""
    by_events = isinstance(config, EventConfig)
    advance = event_step if by_events else step
    state = ready(model, state) if by_events else state
    memory = controller.init(model, state)
    folded = {
        name: jax.tree.map(lambda x: jnp.asarray(x, _dtype(x, state)), measure.initial)
        for name, measure in measures.items()
    }

    def one(carry):
        state, memory, folded = carry
        seen = observe(model, state, config)
        memory, control = controller.update(memory, model, state, seen, config.dt)
        after, info = advance(model, state, seen, control, config, pushes)
        sample = Sample(model, state, seen, memory, control, info, jnp.asarray(config.dt))
        folded = {
            name: jax.tree.map(
                lambda new, old: jnp.asarray(new, old.dtype),
                measure.update(folded[name], sample),
                folded[name],
            )
            for name, measure in measures.items()
        }
        return (after, memory, folded), sample

    def recorded(carry, _):
        carry, sample = one(carry)
        return carry, record(sample)

    def several(carry, _):
        """``record_every`` steps; the record of the first."""

        def next_one(both, index):
            carry, kept = both
            carry, sample = one(carry)
            kept = jax.lax.cond(index == 0, lambda _: record(sample), lambda kept: kept, kept)
            return (carry, kept), None

        shapes = jax.eval_shape(lambda c: recorded(c, None)[1], carry)
        empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        (carry, kept), _ = jax.lax.scan(next_one, (carry, empty), jnp.arange(record_every))
        return carry, kept

    carry = (state, memory, folded)
    if record is None:
        carry, kept = jax.lax.scan(lambda c, _: (one(c)[0], None), carry, length=steps)
    elif record_every == 1:
        carry, kept = jax.lax.scan(recorded, carry, length=steps)
    else:
        carry, kept = jax.lax.scan(several, carry, length=steps // record_every)
    state, memory, folded = carry
    finite = jnp.isfinite(state.q).all() & jnp.isfinite(state.qd).all()
    return RolloutResult(state, memory, folded, kept, finite)


def failed_members(result: RolloutResult) -> list[int]:
    """Indices of the members of a batch whose state went non-finite."""
    finite = jax.device_get(result.finite).reshape(-1)
    return [i for i, ok in enumerate(finite) if not ok]


def _dtype(x: Any, state: State):
    """Floats take the state's precision."""
    array = jnp.asarray(x)
    return state.q.dtype if jnp.issubdtype(array.dtype, jnp.floating) else array.dtype
