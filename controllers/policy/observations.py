"""Observations by name: functions of a ``PolicyInput`` that give (n,) numbers of order one.

Angles count from the pose of the view; vectors are in the frame of the heading, so that a policy
acts alike in every direction. Components that are always zero of a planar body are left out.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.view import PolicyInput, root_link
from jaxsim.dynamics.kinematics import difference, forward_kinematics
from jaxsim.model import Model
from jaxsim.model.roles import FEET, HANDS, TOES
from jaxsim.options import unit

RATE = 0.1  # by which velocities of joints are multiplied [s]
REACHES = "reach_x", "reach_y", "reach_z"
MOST_OFF = 1.0  # of what a body is off a clip [m], [rad]
Part = str | Callable[[PolicyInput], Array]
PERIOD = 1.0  # of the clock where no command asks for another [s]


@unit("rad, m")
def joint_angles(view: PolicyInput) -> Array:
    """Angles (n,) of the dofs with motors, from the pose: of balls rotation vectors [rad or m]."""
    turn = difference(view.model, view.state.q, view.pose, free=False)
    return turn[view.model.topology.actuated_dofs]


@unit("rad, m")
def joint_rates(view: PolicyInput) -> Array:
    """Rates (n,) of the dofs with motors, times 0.1 s."""
    return RATE * view.state.qd[view.model.topology.actuated_dofs]


@unit("m, 1, m/s, rad/s")
def root(view: PolicyInput) -> Array:
    """State (10,) of the root, of a planar body (6,): height of the root link, vertical of the pose
    as the root has rotated it, velocity of the centre of mass, angular velocity of the root."""
    link, kin = root_link(view.model), view.obs.kin
    up = view.ahead(view.turned[:, 2])
    velocity = view.ahead(view.obs.com_velocity)
    turning = view.ahead(kin.velocity[link, :3])
    height = kin.com[link, 2:3]
    if view.model.topology.planar:
        return jnp.concatenate([height, up[::2], velocity[::2], turning[1:2]])
    return jnp.concatenate([height, up, velocity, turning])


@unit("1")
def contacts(view: PolicyInput) -> Array:
    """Contact flags (n,) of feet, toes and hands: 1 where a link touches something, else 0."""
    parts = np.array(view.model.topology.parts((*FEET, *TOES, *HANDS)), int)
    return jnp.where(view.obs.link_touching[parts], 1.0, 0.0).astype(view.state.q.dtype)


@unit("m")
def feet(view: PolicyInput) -> Array:
    """Positions of the feet from the centre of mass [m]: (3,) each, of a planar body (2,)."""
    parts = np.array(view.model.topology.parts(FEET), int)
    from_com = view.ahead(view.obs.kin.com[parts] - view.obs.com)
    return (from_com[:, ::2] if view.model.topology.planar else from_com).reshape(-1)


@unit("that of each command")
def command(view: PolicyInput) -> Array:
    """Commands (n,), in the order of their names."""
    numbers = [view.command[name] for name in sorted(view.command)]
    return jnp.stack(numbers) if numbers else jnp.zeros(0, view.state.q.dtype)


@unit("1")
def heading(view: PolicyInput) -> Array:
    """Cosine and sine (2,) of the commanded direction "heading" relative to the present one.

    The command is an angle [rad] from the initial direction, by default 0.
    """
    angle = jnp.asarray(view.command.get("heading", 0.0), view.state.q.dtype)
    zero = jnp.zeros_like(angle)
    return view.ahead(jnp.stack([jnp.cos(angle), jnp.sin(angle), zero]))[:2]


@unit("m, rad")
def clip_error(view: PolicyInput) -> Array:
    """Deviation (n,) of the body from the clip, each component at most 1.

    Position of the root [m] in the frame of the heading, its rotation (a rotation vector), then the
    dofs with motors [rad or m]. Raises ValueError without a clip.
    """
    top = view.model.topology
    off = difference(view.model, view.state.q, clip_pose(view))
    root = top.v_start[top.joints_of("free")[0]]
    place = view.ahead(off[root : root + 3])
    found = jnp.concatenate([place, off[root + 3 : root + 6], off[top.actuated_dofs]])
    return jnp.clip(found, -MOST_OFF, MOST_OFF)


def clip_pose(view: PolicyInput) -> Array:
    """Present pose (nq,) of the clip. Raises ValueError without a clip."""
    if view.wanted is None:
        raise ValueError("there is no clip to compare with; name one in [environment.clip]")
    return view.wanted


@unit("m")
def to_reach(view: PolicyInput) -> Array:
    """Vector (3,) from the right hand to the place of the commands "reach_x", "reach_y", "reach_z",
    in the frame of the heading.

    The commands count from the root of the pose, as it is placed and oriented there.
    """
    link = root_link(view.model)
    hand = view.obs.kin.com[view.model.topology.part("rightHand")]
    pose = forward_kinematics(view.model, view.pose, jnp.zeros_like(view.state.qd))
    asked = [jnp.asarray(view.command.get(name, 0.0), hand.dtype) for name in REACHES]
    return view.ahead(pose.com[link] + jnp.stack(asked) - hand)


@unit("1")
def phase(view: PolicyInput) -> Array:
    """Sine and cosine (2,) of a clock with the period of the command "period", else 1 s."""
    turn = 2 * np.pi * clock(view)
    return jnp.stack([jnp.sin(turn), jnp.cos(turn)])


def clock(view: PolicyInput) -> Array:
    """Rounds () of a clock since the start, with the period of the command "period".

    Without the command it is ``PERIOD``.
    """
    return view.state.time / view.command.get("period", PERIOD)


@unit("that of the action")
def last_action(view: PolicyInput) -> Array:
    """Last action (na,)."""
    return view.action


ALL = (
    *(joint_angles, joint_rates, root, contacts, feet, last_action),
    *(command, heading, phase, clip_error, to_reach),
)
OBSERVATIONS: dict[str, Callable[[PolicyInput], Array]] = {each.__name__: each for each in ALL}


def observation_vector(parts: Sequence[Part], view: PolicyInput) -> Array:
    """Observation (no,): all parts in their order.

    Raises KeyError for an unknown name, ValueError for a part that is no vector.
    """
    vectors = []
    for part in parts:
        value = jnp.asarray(part_of(part)(view))
        if value.ndim != 1:
            raise ValueError(
                f"observation {_name(part)} has shape {value.shape}; give a vector (n,)"
            )
        vectors.append(value.astype(view.state.q.dtype))
    return jnp.concatenate(vectors)


def part_of(part: Part) -> Callable[[PolicyInput], Array]:
    """Function of a part. Raises KeyError, with the nearest names."""
    return part if callable(part) else look_up(part, OBSERVATIONS, "observation")


def look_up(name: str, known: dict, what: str):
    """Entry of a table by name. Raises KeyError, with the nearest names."""
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 3, 0.4)
    hint = f"; nearest are: {', '.join(near)}" if near else ""
    raise KeyError(f"there is no {what} {name!r}{hint}; there are: {', '.join(known)}")


def _name(part: Part) -> str:
    return part if isinstance(part, str) else getattr(part, "__name__", "of your own")


def check_roles(model: Model, parts: Sequence[Part]) -> None:
    """Raise ModelError for a part that needs roles which the body lacks."""
    for part, roles in {"contacts": FEET, "feet": FEET}.items():
        if part in parts:
            model.topology.require(f"the observation {part!r}", *roles)
