"""Settings of per-step optimisation: numbers that a batch may vary, and static choices."""

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.characters.standing import standing_q
from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import Model
from jaxsim.options import option
from jaxsim.simulation.scheme import register_scheme

FORMS = ("backward", "central")
INERTIA = 0.15  # of a standing body about its centre of mass, over mass and height squared


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Units:
    """Units of the task errors, so that one set of weights serves characters of any size."""

    com: Array  # () of the centre of mass in balance [m]
    shift: Array  # () of the centre of mass on its way to a foot [m]
    limb: Array  # () of hands and feet on their way [m]
    contact: Array  # () of points in contact [m]
    angle: Array  # () of a joint's angle [rad]
    rate: Array  # () of joint velocities [rad/s]
    momentum: Array  # () of the angular momentum about the centre of mass [N m s]
    torque: Array  # () of a change of joint torque [N m]
    load: Array  # () of contact forces that should vanish [N]
    force: Array  # () the body's weight, in which forces are solved for [N]


@jax.jit
def units(model: Model) -> Units:
    """Units of a character, from its standing height of the centre of mass, and its weight.

    The height is that over the lowest point in the standing pose; rates follow from it by Froude's
    similarity. docs/explanation/synthesis.md says how the factors were chosen.
    """
    zero = jnp.zeros(model.topology.nv, model.mass.dtype)
    kin = forward_kinematics(model, jnp.asarray(standing_q(model), model.mass.dtype), zero)
    height = center_of_mass(model, kin)[2] - lowest_point(model, kin)
    gravity = jnp.sqrt(jnp.sum(model.gravity**2))
    weight = model.mass.sum() * gravity
    rate = jnp.sqrt(gravity / height) / 3
    return Units(
        com=0.3 * height,
        shift=height,
        limb=0.025 * height,
        contact=0.001 * height,
        angle=jnp.asarray(0.1, height.dtype),
        rate=rate,
        momentum=INERTIA * model.mass.sum() * height**2 * rate,
        torque=5 * weight * height,
        load=0.02 * weight,
        force=weight,
    )


@register_scheme
@dataclass(frozen=True)
class SynthesisConfig:
    """Settings of ``synthesize``; the static ones shape the program."""

    dt: Array | float = 0.01  # [s]
    response_delay: Array | float = 0.2  # torques stay at those of a push's onset for [s]
    reflex: Array | float = option(
        math.inf,
        "change of motor torques from those of a push's onset for 0.2 s, at most: 0.1 limits, and"
        " so much per body weight of what the push exceeds 0.22 body weights",
        unit="motor limits",
        least=0.0,
    )
    torque_rate: Array | float = option(
        math.inf,
        "change of motor torques, at most, in frames in which contacts do not change",
        unit="motor limits/s",
        above=0.0,
    )
    touch_distance: Array | float = 0.0005  # a smaller gap counts as contact [m]
    slip_speed: Array | float = 0.05  # faster, a contact slides [m/s]
    form: str = dataclasses.field(default="backward", metadata={"static": True})
    sequence: int = dataclasses.field(default=3, metadata={"static": True})  # QPs, if central
    passes: int = option(
        6, "QPs a frame, at most, until no contact separates under force", static=True, least=1
    )
    iterations: int = option(40, "iterations of a QP, at most", static=True, least=1)
    # of ``Scheme.for_search``
    search_passes: int = option(
        2, "`passes` in `tune`, `pushmap` and their checks", static=True, least=1
    )
    search_iterations: int = option(20, "`iterations` there", static=True, least=1)
    tolerance: float | None = dataclasses.field(default=None, metadata={"static": True})  # of a QP
    torque_limits: bool = option(
        False,
        "joint torques stay within their limits; with a controller by goals also a key of the other"
        " schemes",
        shown="true",
        static=True,
    )
    window: int = option(
        1,
        "[horizon](../explanation/synthesis.md#a-window): steps optimised together, the first of"
        " which is taken",
        static=True,
        least=1,
    )
    sweeps: int = option(1, "QPs a step of a horizon", key="window_sweeps", static=True, least=1)
    last_weight: Array | float = 1.0  # terminal cost weight
    announced: bool = option(
        False,
        "a horizon sees pushes to come; else it continues those that act",
        static=True,
    )

    def __post_init__(self):
        if self.form not in FORMS:
            raise ValueError(f"form {self.form!r}: there are {', '.join(FORMS)}")
        if isinstance(self.dt, Real) and not 0 < self.dt < 1:
            raise ValueError(f"dt is {self.dt} s; give a positive time step, such as 0.01")
        counts = ("passes", "iterations", "search_passes", "search_iterations")
        for name in ("sequence", *counts, "window", "sweeps"):
            if isinstance(getattr(self, name), int) and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; at least one is needed")
        if self.window > 1 and self.form != "backward":
            raise ValueError(
                f"a window of {self.window} steps takes the form 'backward', not {self.form!r}"
            )
