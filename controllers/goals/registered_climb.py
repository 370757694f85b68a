"""Builder of the controller ``climb`` from its scenario table."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.climb import ROLES, climb_machine
from controllers.goals.climbing_moves import DEPTH, LIMBS, Limbs, first_holds, holding
from controllers.goals.climbing_state import Climb, Pace
from controllers.goals.registered import goal_controller, read_name
from controllers.goals.starts import check_free
from controllers.registry import Registered, Setup
from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.inverse_kinematics import reached
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.toml_table import Table
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model, ModelError, State, Topology
from jaxsim.model.part import main_part
from jaxsim.model.roles import HANDS
from jaxsim.synthesis.surroundings import frames

LOWEST = 1.05  # of the centre of mass at the start, in its height as the body stands
DEPTH_AT_START = 0.28  # inverse kinematics knows nothing of the wall: nearer, the head is in it
FLAT = 0.1  # holds that are further than this from the plane of the first are on no one wall [m]


def climb(table: Table, setup: Setup) -> Registered:
    """Controller that climbs from hold to hold.

    ``way_deg``: direction, from upwards to the left; ``begin``: hold of each limb at the start, by
    name; by default those nearest to comfortable positions of the limbs. Source: Jain, Ye, Liu
    (2009), section 6.2.
    """
    top, world = setup.model.topology, setup.world
    top.require("the controller 'climb'", *ROLES)
    for key in ("reach", "hold"):
        if table.has(key):
            raise table.error(
                "contradicts climbing: hands and feet are on the wall's holds; leave it out", key
            )
    if len(world.holds) < len(LIMBS):
        raise table.error(
            f"climbs, and the world has {len(world.holds)} holds; give it a [[wall]], or [[hold]]s",
            "name",
        )
    submodel = main_part(top)
    if submodel.topology.joint_kinds[submodel.topology.root_joints[0]] != "free":
        raise table.error("climbs: this needs a body whose root moves freely in space", "name")
    way = np.deg2rad(table.number("way_deg", 0.0))
    wall, limb_holds = Wall.of(setup), _begin(table, setup)
    body, points = submodel.of(setup.model), effectors_of(setup.model)
    limbs = Limbs.of(body, points)
    numbers = (wall.pos, wall.frame, wall.origin, [np.sin(way), np.cos(way)])
    numbers = [jnp.asarray(x, body.mass.dtype) for x in numbers]
    q, initial, slack, away = set_out(
        body, points, limbs, setup.state.q[submodel.q], *numbers, limb_holds
    )
    if limb_holds is None and not slack > 0:
        raise table.error(
            "finds no four holds to begin on within reach of hands and feet; give the wall more, or"
            " another seed, or say which with begin = { leftHand = ... }",
            "name",
        )
    state = setup.state.replace(q=setup.state.q.at[submodel.q].set(q))
    chosen = [world.holds[k] for k in np.asarray(initial.asked)]
    far = np.asarray(away, float) - np.array([hold.reach for hold in chosen])
    if not far.max() <= 0:
        k = _outlier(np.asarray(wall.pos)[np.asarray(initial.asked)])
        raise ModelError(
            f"hold {chosen[k].name!r} is out of reach of {LIMBS[k]!r} while the other limbs are on"
            f" theirs: one of them misses its hold by {far.max():.2f} m; begin on other holds, or"
            " give more of them"
        )
    _check_free(setup, state, wall)
    machine = climb_machine(
        [submodel.topology.joint_names[j] for j in hinges(submodel.topology)], initial
    )
    return replace(goal_controller(machine, table, setup, ROLES), state=state)


def _outlier(places: np.ndarray) -> int:
    """Index of the place furthest from the middle of some places (n, 3)."""
    middle = places.mean(axis=0)
    return int(np.linalg.norm(places - middle, axis=1).argmax())


def hinges(top: Topology) -> list[int]:
    """Joints of the pose: hinges with motors."""
    return [j for j, k in enumerate(top.joint_kinds) if k == "hinge" and top.joint_actuated[j]]


@jax.jit
def set_out(
    body: Model,
    points: Effectors,
    limbs: Limbs,
    q: Array,
    pos: Array,
    frame: Array,
    origin: Array,
    way: Array,
    held: Array | None = None,
    depth: Array | float = DEPTH_AT_START,
) -> tuple[Array, Climb, Array, Array]:
    """Start on a wall, by inverse kinematics; a batch may vary its arguments.

    Returns coordinates (nq,), the initial memory of the climb, the slack () of all limbs, and the
    distance (4,) of each from its hold [m]. q: initial pose; pos (nh, 3), frame, origin: of a
    ``Wall``; way (2,); held (4,) int: the holds; depth (): of the centre of mass, in heights of it.
    """
    top, dtype = body.topology, q.dtype
    places = (pos - origin) @ frame[:2].T
    if held is None:
        about = jnp.stack([jnp.zeros((), dtype), LOWEST * limbs.height])
        held, com, slack = first_holds(limbs, places, about)
    else:
        com, slack = limbs.stance(places[held])
    target = origin + jnp.append(com, depth * limbs.height) @ frame
    still, root = jnp.zeros(top.nv, dtype), top.q_start[top.root_joints[0]]
    now = center_of_mass(body, forward_kinematics(body, q, still))
    ends = tuple(int(np.flatnonzero(points.of(limb))[-1]) for limb in LIMBS)
    q = q.at[root : root + 3].add(target - now)
    q = reached(body, points, ends, q, pos[held], target)
    tips = points.positions(forward_kinematics(body, q, still))[np.array(ends)]
    initial = Climb(
        frame=frame,
        origin=origin,
        way=way,
        depth=DEPTH * limbs.height,
        limbs=limbs,
        pose=q[np.array([top.q_start[j] for j in hinges(top)])],
        pace=Pace(),
        asked=held,
        com=com,
        limb=jnp.asarray(-1),
        hold=jnp.asarray(0),
        back=jnp.asarray(-1),
        saved=jnp.asarray(False),
        found=jnp.asarray(False),
        last=jnp.asarray(-1),
        begun=jnp.zeros((), dtype),
        been=holding(jnp.zeros((4, pos.shape[0]), int), held),
        moves=jnp.asarray(0),
        returns=jnp.asarray(0),
        short=jnp.zeros((), dtype),
    )
    return q, initial, slack, safe_norm(tips - pos[held])


@dataclass(frozen=True)
class Wall:
    """Plane of the holds."""

    pos: np.ndarray  # (nh, 3) of the holds [m]
    rot: np.ndarray  # (nh, 3, 3) of them
    frame: np.ndarray  # (3, 3) rows: left of the climber, up, out
    origin: np.ndarray  # (3,) on it, where the climber stands in front of it [m]

    @classmethod
    def of(cls, setup: Setup) -> "Wall":
        """Wall of all holds of the scenario, as the character faces it at the start.

        Up is the direction in which the first hold pushes feet. Raises ModelError for a hold that
        is off the plane.
        """
        model, holds = setup.model, setup.world.holds
        top = model.topology
        shapes = np.array([top.shape(hold.name) for hold in holds])
        submodel, pelvis = main_part(top), top.part("pelvis")

        @jax.jit
        def seen(model: Model, state: State) -> tuple[Array, ...]:
            kin = forward_kinematics(
                submodel.of(model), state.q[submodel.q], state.qd[submodel.dofs]
            )
            places = effectors_of(model).positions(kin)
            root = kin.link_pos[pelvis], kin.link_rot[pelvis]
            return *frames(model, shapes, state.time), *root, jnp.min(places[:, 2])

        arrays = (np.array(x, float) for x in seen(model, setup.state))
        pos, rot, ground, turned, ground_height = arrays
        ahead = turned @ np.array(top.roles.forward)
        up = rot[0] @ np.array(holds[0].push)
        up = up / np.linalg.norm(up)
        left = np.cross(up, ahead)
        left = left / np.linalg.norm(left)
        frame = np.stack([left, up, np.cross(up, left)])
        off = (pos - pos[0]) @ frame[2]
        if not np.abs(off).max() <= FLAT:
            k = int(np.abs(off).argmax())
            raise ModelError(
                f"hold {holds[k].name!r} is {abs(off[k]):.2f} m off the plane of"
                f" {holds[0].name!r}; who climbs needs all holds on one wall"
            )
        ground[2] = ground_height
        return cls(pos, rot, frame, pos[0] + (ground - pos[0]) @ frame[:2].T @ frame[:2])


def _begin(table: Table, setup: Setup) -> Array | None:
    """Hold (4,) of each limb at the start, int; None if the table has no ``begin``."""
    names = [hold.name for hold in setup.world.holds]
    entries = table.table("begin")
    if entries is None:
        return None
    limb_holds = [names.index(read_name(entries, limb, names)) for limb in LIMBS]
    entries.done()
    for limb, hold in zip(LIMBS, limb_holds):
        if limb_holds.count(hold) > 1:
            raise entries.error(f"is {names[hold]!r}, and so is another's; give each its own", limb)
    return jnp.asarray(limb_holds)


def _check_free(setup: Setup, state: State, wall: Wall) -> None:
    """Raise ModelError for a hold that intersects the body, apart from hands and feet."""
    top = setup.model.topology
    holds = [
        (hold.name, place, hold.shape.size[2] * rot[:, 0])
        for hold, place, rot in zip(setup.world.holds, wall.pos, wall.rot)
    ]
    ends = {top.part(limb) for limb in LIMBS}
    ends |= {k for k, parent in enumerate(top.link_parent) if parent in ends}
    ends |= {top.link_parent[top.part(hand)] for hand in HANDS}
    check_free(setup, state, holds, ends)
