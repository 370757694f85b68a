"""Survival: how long characters stay standing, under any scheme and controller."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.characters.standing import FALLEN, com_over_feet, fallen_height
from jaxsim.model import Model, State
from jaxsim.simulation.health import initial_health
from jaxsim.simulation.measures import Measure, Sample
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import RolloutResult, SimulationCarry, initial_folds, take_steps
from jaxsim.simulation.scheme import Scheme
from jaxsim.solvers.status import Status

UNPHYSICAL = 1.0  # force without a source at the root: with it an unsolved run does not count [N]


class Outcome(NamedTuple):
    """Survival of one trial, or of many as arrays."""

    stood: Array  # () bool: to the end, and physical: see ``standing_measure``
    finite: Array  # () bool: its motion meant something while it stood
    lasted: Array  # () part of the time that it stood, 0 to 1
    unsolved: Array | int = 0  # () frames while it stood whose optimisation was not solved
    root_residual: Array | float = 0.0  # () largest while it stood, see SynthesisInfo [N]


class Stood(NamedTuple):
    """Survival so far, folded over the steps."""

    stands: Array  # () bool
    steps: Array  # () while it stood
    until: Array  # () the end of the last step that began so [s]
    unsolved: Array  # () of these steps
    residual: Array  # () the largest of these, see SynthesisInfo [N]
    first: Array  # (characters,) height at the first step [m]; NaN before it


def standing_measure(model: Model, scheme: Scheme) -> Measure:
    """Measure of whether, and for how long, the characters stand, as ``Stood``.

    A character stands while its centre of mass (of several, that of each) is higher over its lower
    foot (over the ground at height 0, of a body without feet) than ``fallen_height``, which follows
    from its standing pose, however it starts; where that pose is not known, than ``FALLEN`` of its
    height at the first step. It also has to be physical: a step whose optimisation was not solved
    is counted, and with one in a run its root residual is at most ``UNPHYSICAL``.
    """
    parts = scheme.characters(model)
    dtype, zero = model.mass.dtype, jnp.zeros((), model.mass.dtype)
    limits = [fallen_height(part.of(model)) for part in parts]
    known = jnp.stack([jnp.asarray(jnp.nan if x is None else x, dtype) for x in limits])

    def update(value: Stood, sample: Sample) -> Stood:
        kin = sample.obs.kin
        com = jnp.stack(
            [com_over_feet(part.of(model), replace(kin, com=kin.com[part.links])) for part in parts]
        )
        first = jnp.where(jnp.isnan(value.first), com, value.first)
        limit = jnp.where(jnp.isnan(known), FALLEN * first, known)
        unsolved, residual = value.unsolved, value.residual
        if (status := getattr(sample.info, "status", None)) is not None:
            unsolved = unsolved + jnp.where(value.stands & (status != Status.OK), 1, 0)
        if (now := getattr(sample.info, "root_residual", None)) is not None:
            residual = jnp.where(value.stands, jnp.maximum(residual, now), residual)
        physical = (unsolved == 0) | (residual <= UNPHYSICAL)
        stands = value.stands & physical & (com > limit).all()
        until = jnp.where(value.stands, sample.state.time + sample.dt, value.until)
        steps = value.steps + jnp.where(stands, 1, 0)
        return Stood(stands, steps, until.astype(dtype), unsolved, residual.astype(dtype), first)

    none = jnp.zeros((), jnp.int32)
    unknown = jnp.full(len(parts), jnp.nan, dtype)
    return Measure(Stood(jnp.asarray(True), none, zero, none, zero, unknown), update)


def while_standing(measure: Measure, standing: Measure) -> Measure:
    """Measure that ignores steps after a fall, as a pair of ``Stood`` and its value."""

    def update(value: Any, sample: Sample) -> Any:
        stood, held = value
        new = measure.update(held, sample)
        kept = jax.tree.map(
            lambda n, o: jnp.where(stood.stands, n, o).astype(jnp.asarray(o).dtype), new, held
        )
        return standing.update(stood, sample), kept

    return Measure((standing.initial, measure.initial), update)


def survival_parts(out: Outcome) -> dict[str, Any]:
    """Terms of survival by name."""
    stood = jnp.where(out.stood, 1.0, 0.0)
    return {
        "fallen": 1 - out.lasted,
        "toppled": 1 - stood,
        "survived": stood,
        "unsolved_while_standing": out.unsolved,
        "residual_while_standing": out.root_residual,
    }


def outcome_of(result: RolloutResult, stood: Stood, steps: int, dt: Any) -> Outcome:
    """Survival of a rollout over all ``steps``, from the fold of ``standing_measure``.

    Equal to what ``outlast`` returns.
    """
    failed = result.health.status != Status.OK
    sound = ~(failed & (result.health.time <= stood.until + dt / 2))
    lasted = stood.steps.astype(stood.until.dtype) / steps
    return Outcome(stood.stands & sound, sound, lasted, stood.unsolved, stood.residual)


def outlast(
    model: Model,
    controller: Any,
    scheme: Scheme,
    first: tuple[State, Any],
    forces: Pushes | None,
    steps: int,
    measures: Mapping[str, Measure] | None = None,
) -> tuple[Outcome, dict[str, Any]]:
    """Survival over ``steps`` steps from ``begin`` on, and measures folded while it lasts.

    Standing is defined in ``standing_measure``; a motion that diverges (``simulation.health``)
    counts as fallen. A trial ends with a fall: a fallen member is reset to its start, without
    pushes, so that it does not slow the rest of the batch.
    """
    every = {"standing": standing_measure(model, scheme), **(measures or {})}
    state, memory = first
    folds = initial_folds(every, state.q.dtype)
    start = SimulationCarry(state, memory, folds, initial_health(state))
    end = take_steps(
        model, controller, scheme, start, steps, every, forces,
        lasts=lambda folded: folded["standing"].stands,
    )  # fmt: skip
    folded = dict(end.folded)
    stood = folded.pop("standing")
    finite = end.health.status == Status.OK
    lasted = stood.steps.astype(state.q.dtype) / steps
    return Outcome(finite & stood.stands, finite, lasted, stood.unsolved, stood.residual), folded
