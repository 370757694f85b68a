"""Checks of a scenario before per-step optimisation runs, on the host; status reports the rest."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.effectors import Effectors
from jaxsim.model import Model, State
from jaxsim.model.part import Submodel, character_parts, driven_part
from jaxsim.model.state import check_state
from jaxsim.simulation.pushes import Pushes
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.surroundings import bearing_shapes, surroundings
from jaxsim.synthesis.tasks import Tasks

SUNK = 0.005  # an effector deeper than this at the start is a mistake [m]


@partial(jax.jit, static_argnames="part")
def _seen(model: Model, effectors: Effectors, state: State, part: Submodel) -> Configuration:
    """Configuration of a submodel, compiled as a whole: operation by operation takes longer."""
    around = surroundings(model, state.time)
    q, qd = state.q[part.q], state.qd[part.dofs]
    return configuration_at(part.of(model), effectors, q, qd, around)


class SynthesisError(ValueError):
    """Raised for a scenario that per-step optimisation cannot run, or for failed members."""


def check_setup(
    model: Model,
    effectors: Effectors,
    state: State,
    config: SynthesisConfig | None = None,
    pushes: Pushes | None = None,
    tasks: Callable[[Configuration, Array], Tasks] | None = None,
) -> None:
    """Raise ``SynthesisError`` or ``ModelError`` for input that makes every step fail.

    State that does not fit the model or is not finite, friction that is not positive, an effector
    below the ground, a surface that synthesis does not know, pushes that are not finite, settings
    out of their range, and with ``tasks`` (those of ``synthesize``) goals whose weight or target is
    no number. Arrays of one character; call it for each of a batch.
    """
    check_state(model, state)
    for shape in sorted({*effectors.shapes, *bearing_shapes(model.topology)}):
        name, mu = model.topology.shape_names[shape], float(model.friction[shape])
        if not (np.isfinite(mu) and mu > 0):
            raise SynthesisError(
                f"friction of shape {name!r} is {mu}; contacts need a positive coefficient, such "
                "as 0.2 for ice"
            )
    main, *others = character_parts(model.topology)
    conf = _seen(model, effectors, state, main)
    _check_depth(conf)
    for part in others:
        _check_depth(_seen(model, effectors_of(part.of(model)), state, part))
    if config is not None:
        check_settings(config)
    if pushes is not None:
        for link in np.asarray(pushes.link):
            if link in driven_part(model.topology).links:
                name = model.topology.link_names[link]
                raise SynthesisError(f"pushes: {name!r} moves as its drives say; push another link")
        for field in ("point", "force", "start"):
            if not np.isfinite(np.asarray(getattr(pushes, field))).all():
                raise SynthesisError(f"pushes: {field} is not finite")
    if tasks is not None:
        _check_tasks(tasks(conf, jnp.zeros_like(conf.v)))


def _check_depth(conf: Configuration) -> None:
    for name, depth in zip(conf.effectors.names, -np.asarray(conf.near.gap)):
        if not depth <= SUNK:
            raise SynthesisError(
                f"effector {name!r} begins {1000 * depth:.0f} mm inside of a surface; raise the "
                "character, or bend what is in the way"
            )


def _check_tasks(tasks: Tasks) -> None:
    """Raise for non-finite rows, by number, and for weights that are not zero or more, by name."""
    for name in ("goals", "fixed"):
        rows = getattr(tasks, name)
        if rows is None:
            continue
        finite = np.isfinite(np.asarray(rows.J)).all(axis=1) & np.isfinite(np.asarray(rows.r))
        if not finite.all():
            raise SynthesisError(
                f"row {int(finite.argmin())} of the {name} is not finite: its weight, target or "
                "Jacobian is no number"
            )
    for name in ("relax", "still", "torque"):
        value = np.asarray(getattr(tasks, name))
        if not (np.isfinite(value) & (value >= 0)).all():
            raise SynthesisError(f"weight {name!r} is {value}; weights are zero or more")


def check_settings(config: SynthesisConfig) -> None:
    """Raise SynthesisError for a number out of its range, also of an array with a batch axis."""
    limits = {"dt": 0.0, "touch_distance": 0.0, "slip_speed": 0.0, "response_delay": None}
    limits["last_weight"] = None
    for name, least in limits.items():
        value = np.asarray(getattr(config, name))
        bad = ~np.isfinite(value) | (value < 0 if least is None else value <= least)
        if bad.any():
            kind = "zero or more" if least is None else "positive"
            raise SynthesisError(f"{name} is {value.reshape(-1)[bad.argmax()]}; it is {kind}")
