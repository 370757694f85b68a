"""What can be observed, by name: functions of a ``View`` that give (n,) numbers of order one.

Angles count from the pose of the view; vectors are in the frame of the heading, so that a policy
does as well to the north as to the east. Of a planar body what is always zero is left out.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.policy.view import View, root_link
from jaxsim.dynamics.kinematics import difference, forward_kinematics
from jaxsim.model import Model
from jaxsim.model.roles import FEET, HANDS, TOES

RATE = 0.1  # by which velocities of joints are multiplied [s]
REACHES = "reach_x", "reach_y", "reach_z"
MOST_OFF = 1.0  # of what a body is off a clip [m], [rad]
Part = str | Callable[[View], Array]
PERIOD = 1.0  # of the clock where no command asks for another [s]


def joint_angles(view: View) -> Array:
    """(n,) of the dofs with motors, from the pose: of balls rotation vectors [rad or m]."""
    turn = difference(view.model, view.state.q, view.pose, free=False)
    return turn[view.model.topology.actuated_dofs]


def joint_rates(view: View) -> Array:
    """(n,) of the same, times ``RATE``."""
    return RATE * view.state.qd[view.model.topology.actuated_dofs]


def root(view: View) -> Array:
    """(10,), of a planar body (6,): height of the root link [m], the vertical of the pose as the
    root has turned it, velocity of the centre of mass [m/s], its angular velocity [rad/s]."""
    link, kin = root_link(view.model), view.obs.kin
    up = view.ahead(view.turned[:, 2])
    velocity = view.ahead(view.obs.com_velocity)
    turning = view.ahead(kin.velocity[link, :3])
    height = kin.com[link, 2:3]
    if view.model.topology.planar:
        return jnp.concatenate([height, up[::2], velocity[::2], turning[1:2]])
    return jnp.concatenate([height, up, velocity, turning])


def contacts(view: View) -> Array:
    """(n,) 1 where a foot, toe or hand touches something, else 0."""
    parts = np.array(view.model.topology.parts((*FEET, *TOES, *HANDS)), int)
    return jnp.where(view.obs.link_touching[parts], 1.0, 0.0).astype(view.state.q.dtype)


def feet(view: View) -> Array:
    """Of the feet, from the centre of mass [m]: (3,) each, of a planar body (2,)."""
    parts = np.array(view.model.topology.parts(FEET), int)
    from_com = view.ahead(view.obs.kin.com[parts] - view.obs.com)
    return (from_com[:, ::2] if view.model.topology.planar else from_com).reshape(-1)


def command(view: View) -> Array:
    """(n,) what is asked for, in the order of its names."""
    numbers = [view.command[name] for name in sorted(view.command)]
    return jnp.stack(numbers) if numbers else jnp.zeros(0, view.state.q.dtype)


def heading(view: View) -> Array:
    """(2,) of the commanded direction "heading" [rad] (without one 0, as it began) cosine and sine
    in the frame of the heading."""
    angle = jnp.asarray(view.command.get("heading", 0.0), view.state.q.dtype)
    zero = jnp.zeros_like(angle)
    return view.ahead(jnp.stack([jnp.cos(angle), jnp.sin(angle), zero]))[:2]


def clip_error(view: View) -> Array:
    """(n,) from the clip to the body: of the root how far it is off [m], in the frame of the
    heading, and turned (a rotation vector), then of the dofs with motors [rad or m]; each at most
    ``MOST_OFF``. Raises ValueError where there is no clip."""
    top = view.model.topology
    off = difference(view.model, view.state.q, clip_pose(view))
    root = top.v_start[top.joints_of("free")[0]]
    place = view.ahead(off[root : root + 3])
    found = jnp.concatenate([place, off[root + 3 : root + 6], off[top.actuated_dofs]])
    return jnp.clip(found, -MOST_OFF, MOST_OFF)


def clip_pose(view: View) -> Array:
    """(nq,) that the clip has now. Raises ValueError where there is none."""
    if view.wanted is None:
        raise ValueError("there is no clip to compare with; name one in [environment.clip]")
    return view.wanted


def to_reach(view: View) -> Array:
    """(3,) from the right hand to the place of the commands "reach_x", "reach_y", "reach_z" [m], in
    the frame of the heading. These count from the root of the pose, as it is placed and turned
    there."""
    link = root_link(view.model)
    hand = view.obs.kin.com[view.model.topology.part("rightHand")]
    pose = forward_kinematics(view.model, view.pose, jnp.zeros_like(view.state.qd))
    asked = [jnp.asarray(view.command.get(name, 0.0), hand.dtype) for name in REACHES]
    return view.ahead(pose.com[link] + jnp.stack(asked) - hand)


def phase(view: View) -> Array:
    """(2,) sine and cosine of a clock, see ``clock``."""
    turn = 2 * np.pi * clock(view)
    return jnp.stack([jnp.sin(turn), jnp.cos(turn)])


def clock(view: View) -> Array:
    """() rounds of a clock that begins with the motion: one in the time that the command "period"
    asks for, else in ``PERIOD``."""
    return view.state.time / view.command.get("period", PERIOD)


def last_action(view: View) -> Array:
    """(na,)."""
    return view.action


ALL = (
    *(joint_angles, joint_rates, root, contacts, feet, last_action),
    *(command, heading, phase, clip_error, to_reach),
)
OBSERVATIONS: dict[str, Callable[[View], Array]] = {each.__name__: each for each in ALL}


def observed(parts: Sequence[Part], view: View) -> Array:
    """(no,) all parts in their order. Raises KeyError for a name that there is none of, ValueError
    for a part that is no vector."""
    found = []
    for part in parts:
        value = jnp.asarray(part_of(part)(view))
        if value.ndim != 1:
            raise ValueError(
                f"observation {_name(part)} has shape {value.shape}; give a vector (n,)"
            )
        found.append(value.astype(view.state.q.dtype))
    return jnp.concatenate(found)


def part_of(part: Part) -> Callable[[View], Array]:
    """The function of a part. Raises KeyError, with the nearest names."""
    return part if callable(part) else named(part, OBSERVATIONS, "observation")


def named(name: str, known: dict, what: str):
    """What a table of named things has. Raises KeyError, with the nearest names."""
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 3, 0.4)
    hint = f"; nearest are: {', '.join(near)}" if near else ""
    raise KeyError(f"there is no {what} {name!r}{hint}; there are: {', '.join(known)}")


def _name(part: Part) -> str:
    return part if isinstance(part, str) else getattr(part, "__name__", "of your own")


def check_roles(model: Model, parts: Sequence[Part]) -> None:
    """Raise ModelError where a part asks for roles that the body lacks."""
    for part, roles in {"contacts": FEET, "feet": FEET}.items():
        if part in parts:
            model.topology.require(f"the observation {part!r}", *roles)
