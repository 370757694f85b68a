"""The controller ``climb``, from its table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals.climb import ROLES, climb_machine
from controllers.goals.climbing_moves import DEPTH, LIMBS, Limbs, first_holds, holding
from controllers.goals.climbing_state import Climb, Pace
from controllers.goals.registered import GoalKeys, goal_controller, read_name
from controllers.goals.starts import check_free, intersections
from controllers.registry import Registered, Setup
from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.inverse_kinematics import reach_points
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.keys import Keys, reads
from jaxsim.io.toml_table import Table
from jaxsim.io.world import Hold
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model, ModelError, State, Topology
from jaxsim.model.part import main_part
from jaxsim.model.roles import HANDS
from jaxsim.options import option
from jaxsim.synthesis.surroundings import frames

LOWEST = 1.05  # of the centre of mass at the start, in its height as the body stands
DEPTH_AT_START = 0.28  # inverse kinematics knows nothing of the wall: nearer, the head is in it
FURTHER_OUT = np.arange(0.30, 0.46, 0.02)  # where a hold would be inside of the body there
FLAT = 0.1  # holds that are further than this from the plane of the first are on no one wall [m]


@dataclass(frozen=True, kw_only=True)
class ClimbKeys(Keys):
    """Keys of ``climb``, which takes neither ``reach`` nor ``pin``."""

    way_deg: float = option(0.0, "direction of the climb, from upwards to the left", unit="deg")
    begin: Table | None = option(
        None,
        "`{ leftHand, rightHand, leftFoot, rightFoot }`: holds at the start, by name",
        shown="those nearest to where limbs are at ease",
        kind=dict,
    )


@reads(ClimbKeys)
def climb(keys: ClimbKeys, setup: Setup) -> Registered:
    """[Climb](../explanation/behaviours.md#climbing) from hold to hold (section 6.2)."""
    top, world, table = setup.model.topology, setup.world, keys.table
    top.require("the controller 'climb'", *ROLES)
    for key in ("reach", "pin", "hold"):
        if table.has(key):
            raise table.error(
                "contradicts climbing: hands and feet are on the wall's holds; leave it out", key
            )
    if len(world.holds) < len(LIMBS):
        raise table.error(
            f"climbs, and the world has {len(world.holds)} holds; give it a [[wall]], or [[hold]]s",
            "name",
        )
    part = main_part(top)
    if part.topology.joint_kinds[part.topology.root_joints[0]] != "free":
        raise table.error("climbs: this needs a body whose root moves freely in space", "name")
    way = np.deg2rad(keys.way_deg)
    wall, grips = Wall.of(setup), _begin(keys.begin, setup)
    body, points = part.of(setup.model), effectors_of(setup.model)
    limbs = Limbs.of(body, points)
    numbers = (wall.pos, wall.frame, wall.origin, [np.sin(way), np.cos(way)])
    numbers = [jnp.asarray(x, body.mass.dtype) for x in numbers]

    def begun(depth: float) -> tuple[State, Climb, Array, Array]:
        q = setup.state.q[part.q]
        q, *more = set_out(body, points, limbs, q, *numbers, grips, depth)
        return setup.state.replace(q=setup.state.q.at[part.q].set(q)), *more

    state, start, slack, away = begun(DEPTH_AT_START)
    if grips is None and not slack > 0:
        raise table.error(
            "finds no four holds to begin on within reach of hands and feet; give the wall more, or"
            " another seed, or say which with begin = { leftHand = ... }",
            "name",
        )
    chosen = [world.holds[k] for k in np.asarray(start.asked)]
    reach = np.array([hold.reach for hold in chosen])
    far = np.asarray(away, float) - reach
    if not far.max() <= 0:
        k = _outlier(np.asarray(wall.pos)[np.asarray(start.asked)])
        raise ModelError(
            f"hold {chosen[k].name!r} is out of reach of {LIMBS[k]!r} while the other limbs are on"
            f" theirs: one of them misses its hold by {far.max():.2f} m; begin on other holds, or"
            " give more of them"
        )
    holds, ends = _holds(world.holds, wall), _ends(top)
    if any(intersections(setup, state, holds, ends)):
        others = (begun(float(depth)) for depth in FURTHER_OUT)
        free = (
            (at, climb)
            for at, climb, _, away in others
            if (np.asarray(away) <= reach).all() and not any(intersections(setup, at, holds, ends))
        )
        state, start = next(free, (state, start))
        check_free(setup, state, holds, ends)
    machine = climb_machine([part.topology.joint_names[j] for j in hinges(part.topology)], start)
    return replace(goal_controller(machine, GoalKeys(table=table), setup, ROLES), state=state)


def _outlier(places: np.ndarray) -> int:
    """Which of some places (n, 3) is the furthest from the middle of the others."""
    middle = places.mean(axis=0)
    return int(np.linalg.norm(places - middle, axis=1).argmax())


def hinges(top: Topology) -> list[int]:
    """The joints of the pose."""
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
    grips: Array | None = None,
    depth: Array | float = DEPTH_AT_START,
) -> tuple[Array, Climb, Array, Array]:
    """The start on a wall, which a batch may vary: (nq,) by inverse kinematics from the pose q, and
    where the climb begins; how far all limbs are within their reach, and each (4,) from its hold
    [m]. pos (nh, 3), frame, origin: of a ``Wall``; way (2,); grips (4,) int: on which holds;
    depth (): of the centre of mass, in heights of it."""
    top, dtype = body.topology, q.dtype
    places = (pos - origin) @ frame[:2].T
    if grips is None:
        about = jnp.stack([jnp.zeros((), dtype), LOWEST * limbs.height])
        grips, com, slack = first_holds(limbs, places, about)
    else:
        com, slack = limbs.stance(places[grips])
    target = origin + jnp.append(com, depth * limbs.height) @ frame
    still, root = jnp.zeros(top.nv, dtype), top.q_start[top.root_joints[0]]
    now = center_of_mass(body, forward_kinematics(body, q, still))
    ends = tuple(int(np.flatnonzero(points.of(limb))[-1]) for limb in LIMBS)
    q = q.at[root : root + 3].add(target - now)
    q = reach_points(body, points, ends, q, pos[grips], target)
    tips = points.positions(forward_kinematics(body, q, still))[np.array(ends)]
    start = Climb(
        frame=frame,
        origin=origin,
        way=way,
        depth=DEPTH * limbs.height,
        limbs=limbs,
        pose=q[np.array([top.q_start[j] for j in hinges(top)])],
        pace=Pace(),
        asked=grips,
        com=com,
        limb=jnp.asarray(-1),
        hold=jnp.asarray(0),
        back=jnp.asarray(-1),
        saved=jnp.asarray(False),
        found=jnp.asarray(False),
        last=jnp.asarray(-1),
        begun=jnp.zeros((), dtype),
        been=holding(jnp.zeros((4, pos.shape[0]), int), grips),
        moves=jnp.asarray(0),
        returns=jnp.asarray(0),
        short=jnp.zeros((), dtype),
    )
    return q, start, slack, safe_norm(tips - pos[grips])


@dataclass(frozen=True)
class Wall:
    """The plane of the holds."""

    pos: np.ndarray  # (nh, 3) of the holds [m]
    rot: np.ndarray  # (nh, 3, 3) of them
    frame: np.ndarray  # (3, 3) rows: left of who climbs, up, out
    origin: np.ndarray  # (3,) on it, where the climber stands in front of it [m]

    @classmethod
    def of(cls, setup: Setup) -> "Wall":
        """Wall of all holds of the world, as the character faces it at the start: up is the way
        that the first one pushes feet. Raises ModelError for one that is off the plane."""
        model, holds = setup.model, setup.world.holds
        top = model.topology
        shapes = np.array([top.shape(hold.name) for hold in holds])
        own, pelvis = main_part(top), top.part("pelvis")

        @jax.jit
        def seen(model: Model, state: State) -> tuple[Array, ...]:
            kin = forward_kinematics(own.of(model), state.q[own.q], state.qd[own.dofs])
            places = effectors_of(model).positions(kin)
            root = kin.link_pos[pelvis], kin.link_rot[pelvis]
            return *frames(model, shapes, state.time), *root, jnp.min(places[:, 2])

        found = (np.array(x, float) for x in seen(model, setup.state))
        pos, rot, ground, turned, ground_height = found
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


def _begin(table: Table | None, setup: Setup) -> Array | None:
    """(4,) int: the hold of each limb at the start, where the table says it."""
    names = [hold.name for hold in setup.world.holds]
    if table is None:
        return None
    held = [names.index(read_name(table, limb, names)) for limb in LIMBS]
    table.done()
    for limb, hold in zip(LIMBS, held):
        if held.count(hold) > 1:
            raise table.error(f"is {names[hold]!r}, and so is another's; give each its own", limb)
    return jnp.asarray(held)


def _holds(holds: Sequence[Hold], wall: Wall) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Name, place (3,) and half (3,) of each hold, for ``check_free``."""
    return [
        (hold.name, place, hold.shape.size[2] * rot[:, 0])
        for hold, place, rot in zip(holds, wall.pos, wall.rot)
    ]


def _ends(top: Topology) -> set[int]:
    """Links near to the ends of the limbs, which may intersect holds."""
    ends = {top.part(limb) for limb in LIMBS}
    ends |= {k for k, parent in enumerate(top.link_parent) if parent in ends}
    return ends | {top.link_parent[top.part(hand)] for hand in HANDS}
