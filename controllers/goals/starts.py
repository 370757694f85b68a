"""Starts other than named poses: hanging from a bar."""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.registry import Setup
from jaxsim.characters.standing import effectors_of
from jaxsim.collision.contacts import shape_poses
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.rotation import quat_multiply
from jaxsim.model import Model, ModelError, State
from jaxsim.model.part import main_part
from jaxsim.model.roles import HANDS, UPPER_ARMS
from jaxsim.synthesis.surroundings import frames

APART = 0.02  # hands that are further from the bar do not hang from it [m]


def hanging(setup: Setup, bar: str, angle: float) -> State:
    """Start that hangs by the hands from a bar, turned about it by an angle [rad], forward.

    bar: a hold by its name; the middle of the hands is at its middle. Raises ModelError for a bar
    that the hands are not on then, and for a bar through the body.
    """
    model, points = setup.model, effectors_of(setup.model)
    top, submodel = model.topology, main_part(model.topology)
    shape = top.shape(bar)
    places, turns = frames(model, np.array([shape]), setup.state.time)
    place, along = np.asarray(places[0], float), np.asarray(turns[0], float)[:, 0]
    across = along if along[1] > 0 else -along  # from the right hand to the left one, as it looks
    root = top.root_joints[0]
    if top.joint_kinds[root] != "free":
        raise ModelError("hanging needs a body whose root moves freely in space")
    at, q = top.q_start[root], np.array(setup.state.q, float)
    turn = np.array([np.cos(angle / 2), *(-np.sin(angle / 2) * across)])
    q[at + 3 : at + 7] = quat_multiply(jnp.asarray(turn), jnp.asarray(q[at + 3 : at + 7]))

    last = np.array([np.flatnonzero(points.of(name))[-1] for name in HANDS])

    @jax.jit
    def positions(model: Model, q: Array, qd: Array) -> Array:
        kin = forward_kinematics(submodel.of(model), q[submodel.q], qd[submodel.dofs])
        return points.positions(kin)[last]

    def tips() -> np.ndarray:
        return np.asarray(positions(model, jnp.asarray(q), setup.state.qd))

    q[at : at + 3] += place - tips().mean(axis=0)
    half = float(model.shape_size[shape, 2]) if top.shape_kinds[shape] == "capsule" else 0.0
    off = tips() - place
    off = off - np.clip(off @ along, -half, half)[:, None] * along
    worst = np.linalg.norm(off, axis=1).max()
    if not worst <= APART:
        raise ModelError(
            f"hold {bar!r}: hanging from its middle, a hand is {worst:.2f} m away from it; a bar"
            " needs a half_length, and to run from hand to hand"
        )
    state = setup.state.replace(q=jnp.asarray(q, setup.state.q.dtype))
    hands = [top.part(name) for name in HANDS]
    arms = {*hands, *(top.link_parent[k] for k in hands), *(top.part(name) for name in UPPER_ARMS)}
    check_free(setup, state, [(bar, place, half * along)], arms)
    return state


def check_free(
    setup: Setup, state: State, holds: Sequence[tuple[str, np.ndarray, np.ndarray]], but: set[int]
) -> None:
    """Raise ModelError for a hold that intersects a link of the character outside of ``but``.

    holds: (name, place (3,), half of a bar (3,) [m]).
    """
    for name, through, depth in intersections(setup, state, holds, but):
        raise ModelError(f"hold {name!r} goes {depth:.2f} m deep through {through!r}")


def intersections(
    setup: Setup, state: State, holds: Sequence[tuple[str, np.ndarray, np.ndarray]], but: set[int]
) -> Iterator[tuple[str, str, float]]:
    """Iterate over holds inside of links: hold, link, depth [m]; arguments of ``check_free``."""
    submodel = main_part(setup.model.topology)
    body = submodel.of(setup.model)
    pos, rot = map(np.asarray, _shape_poses(body, state.q[submodel.q], state.qd[submodel.dofs]))
    for name, place, end in holds:
        points = place + np.linspace(-1.0, 1.0, 201 if end.any() else 1)[:, None] * end
        for s, link in enumerate(body.topology.shape_link):
            if link < 0 or link in but:
                continue
            local = (points - pos[s]) @ rot[s]
            inside = body.topology.shape_record(s).depth(np.asarray(body.shape_size[s]), local)
            if inside.max() > 0:
                yield name, body.topology.link_names[link], float(inside.max())


@jax.jit
def _shape_poses(body: Model, q: Array, qd: Array) -> tuple[Array, Array]:
    """Positions (ns, 3) and rotations (ns, 3, 3) of the shapes of a body."""
    return shape_poses(body, forward_kinematics(body, q, qd))
