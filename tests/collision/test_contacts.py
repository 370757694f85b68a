"""Contact points of balls, capsules and boxes: dense sampling, pruning, gradients."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.planar_human import planar_human
from jaxsim.collision.contacts import FAR, find_contacts, lowest_point, overlapping_pairs
from jaxsim.collision.pairs import ball_box, ball_plane, box_distance, side_box
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.fused import fuse
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model import (
    ModelBuilder,
    ModelError,
    box,
    capsule,
    free,
    height_field,
    hinge,
    plane,
    sphere,
    tapered_capsule,
)
from tests.compiling import quick_jit

pytestmark = pytest.mark.usefixtures("x64_module")

POSES = 200
HALF = np.array([0.5, 0.3, 0.2])  # of the box in the world
RADII = {"cone": (0.25, 0.05), "rod": (0.1, 0.1)}
TURN = np.array([0.8, 0.36, 0.0, 0.48])
SLOPE = np.array([np.cos(0.2), 0.0, np.sin(0.2), 0.0])
PLACE = np.array([0.3, 0.1, 0.5])
BODY = dict(mass=1.0, inertia=(0.1, 0.1, 0.1))


def build_scene():
    """A marble, a rod, a cone and a crate in the air, over a tilted plane and a turned box."""
    b = ModelBuilder()
    for name, shape in (
        ("marble", sphere(0.2, pos=(0.1, 0, 0), friction=0.9, restitution=0.7)),
        ("rod", capsule(0.1, 0.4, friction=0.4)),
        ("cone", tapered_capsule(0.25, 0.05, 0.4, pos=(0, 0.1, 0), quat=TURN)),
        ("crate", box((0.1, 0.2, 0.3), pos=(0, 0, 0.1), quat=TURN)),
    ):
        b.add_link(name, "world", joints=[free(name + "_free")], **BODY)
        b.add_shape(name, dataclasses.replace(shape, name=name))
    b.add_shape("world", plane(name="slope", pos=(0, 0, -0.2), quat=SLOPE, friction=0.4))
    b.add_shape("world", box(HALF, name="block", pos=PLACE, quat=TURN, restitution=0.1))
    return b.build()


@pytest.fixture(scope="module")
def scene(x64_module):
    return build_scene()


@pytest.fixture(scope="module")
def look():
    """Contacts, kinematics and lowest point of a batch of poses."""

    def one(model, q):
        kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, q.dtype))
        return find_contacts(model, kin), kin, lowest_point(model, kin)

    return quick_jit(jax.vmap(one, (None, 0)))


@pytest.fixture(scope="module")
def poses(scene) -> np.ndarray:
    """Random poses of all links: near the block, apart and deep inside."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(POSES, 4, 7))
    q[..., :3] = PLACE + 0.5 * rng.normal(size=(POSES, 4, 3))
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)
    return q.reshape(POSES, 28)


@pytest.fixture(scope="module")
def seen(scene, look, poses):
    return jax.tree.map(np.asarray, look(scene, poses))


def signed_distance(point: np.ndarray, half=HALF) -> np.ndarray:
    """(...) of points (..., 3) to a box at the origin."""
    excess = np.abs(point) - half
    return np.linalg.norm(np.maximum(excess, 0), axis=-1) + np.minimum(excess.max(axis=-1), 0)


def in_block(point: np.ndarray) -> np.ndarray:
    return (point - PLACE) @ rotation_matrix(TURN)


def ends(model, kin, name: str) -> np.ndarray:
    """(n, 2, 3) centres of a capsule's end balls."""
    top = model.topology
    s, link = top.shape(name), top.link(name)
    along = model.shape_size[s, 2] * rotation_matrix(model.shape_quat[s])[:, 0]
    local = np.stack([model.shape_pos[s] + along, model.shape_pos[s] - along])
    return kin.link_pos[:, link, None] + np.einsum("nij,ej->nei", kin.link_rot[:, link], local)


def rows(model, family: str) -> range:
    """The slots of one family, in the order of ``contact_slots``."""
    slots = contact_slots(model.topology)
    first = 0
    for name, width in (
        ("ball_plane", 1),
        ("ball_box", 1),
        ("side_box", 1),
        ("box_plane", 4),
        ("box_box", 13),
    ):
        size = width * len(slots.rows[name])
        if name == family:
            return range(first, first + size)
        first += size
    raise KeyError(family)


def slots_of(model, name: str, other: str) -> np.ndarray:
    slots, top = contact_slots(model.topology), model.topology
    return np.flatnonzero((slots.shape_a == top.shape(name)) & (slots.shape_b == top.shape(other)))


def test_every_slot_is_consistent(scene, seen):
    """Finite, unit normals, the slots that the topology promises."""
    contacts, *_ = seen
    slots = contact_slots(scene.topology)
    assert contacts.gap.shape == (POSES, slots.count)
    assert slots.count == 2 * (1 + 2 + 2) + 2 + 4 + 13
    for value in (contacts.point, contacts.normal, contacts.gap):
        assert np.isfinite(value).all()
    np.testing.assert_allclose(np.linalg.norm(contacts.normal, axis=-1), 1, atol=1e-9)
    a, b = slots.shape_a, slots.shape_b
    friction, bounce = np.asarray(scene.friction), np.asarray(scene.restitution)
    np.testing.assert_allclose(contacts.friction[0], np.sqrt(friction[a] * friction[b]))
    np.testing.assert_allclose(contacts.restitution[0], np.maximum(bounce[a], bounce[b]))


def test_ball_on_a_tilted_plane(scene, seen):
    contacts, kin, _ = seen
    up = np.array([np.sin(0.4), 0, np.cos(0.4)])
    centre = kin.link_pos[:, 0] + 0.1 * kin.link_rot[:, 0, :, 0]
    [slot] = slots_of(scene, "marble", "slope")
    gap = (centre - [0, 0, -0.2]) @ up - 0.2
    np.testing.assert_allclose(contacts.gap[:, slot], gap, atol=1e-12)
    np.testing.assert_allclose(contacts.normal[:, slot], np.tile(up, (POSES, 1)), atol=1e-12)
    middle = centre - up * (0.2 + gap[:, None] / 2)
    np.testing.assert_allclose(contacts.point[:, slot], middle, atol=1e-12)


@pytest.mark.parametrize("name", ["rod", "cone"])
def test_capsule_on_a_plane_touches_with_its_ends(scene, seen, name):
    """The lowest of the swept balls is an end."""
    contacts, kin, _ = seen
    up = np.array([np.sin(0.4), 0, np.cos(0.4)])
    slots = slots_of(scene, name, "slope")
    assert len(slots) == 2
    s = np.linspace(0, 1, 101)[:, None]
    e = ends(scene, kin, name)[:, :, None]
    swept = e[:, 0] + s * (e[:, 1] - e[:, 0])
    radius = RADII[name][0] + s[:, 0] * (RADII[name][1] - RADII[name][0])
    dense = ((swept - [0, 0, -0.2]) @ up - radius).min(axis=1)
    np.testing.assert_allclose(contacts.gap[:, slots].min(axis=1), dense, atol=1e-12)


def test_ball_against_a_box(scene, seen):
    """Gap, and the two surface points half a gap from the contact point."""
    contacts, kin, _ = seen
    centre = kin.link_pos[:, 0] + 0.1 * kin.link_rot[:, 0, :, 0]
    distance = signed_distance(in_block(centre))
    assert (distance < 0).any() and (distance > 0).any()
    [slot] = slots_of(scene, "marble", "block")
    point, normal, gap = contacts.point[:, slot], contacts.normal[:, slot], contacts.gap[:, slot]
    np.testing.assert_allclose(gap, distance - 0.2, atol=1e-12)
    on_ball, on_box = point + normal * gap[:, None] / 2, point - normal * gap[:, None] / 2
    np.testing.assert_allclose(np.linalg.norm(on_ball - centre, axis=1), 0.2, atol=1e-12)
    np.testing.assert_allclose(signed_distance(in_block(on_box)), 0, atol=1e-12)


@pytest.mark.parametrize("name", ["rod", "cone"])
def test_capsule_against_a_box_is_its_swept_ball(scene, seen, name):
    """The least gap of ends and side is that of 4001 balls along the segment."""
    contacts, kin, _ = seen
    slots = slots_of(scene, name, "block")
    side = [slot for slot in slots if slot in rows(scene, "side_box")]
    assert len(slots) == 3 and len(side) == 1
    s = np.linspace(0, 1, 4001)[:, None]
    radius = RADII[name][0] + s[:, 0] * (RADII[name][1] - RADII[name][0])
    decided_by_side = 0
    for k, (e0, e1) in enumerate(ends(scene, kin, name)):
        dense = signed_distance(in_block(e0 + s * (e1 - e0))) - radius
        gap = contacts.gap[k, slots]
        best = dense.min()
        assert best - 1e-4 <= gap.min() <= best + 1e-4
        # end slots are the end balls; the side stays silent where an end is nearest
        np.testing.assert_allclose(contacts.gap[k, slots[:2]], dense[[0, -1]], atol=1e-12)
        inner = 0.002 < s[dense.argmin(), 0] < 0.998
        if inner and best < dense[[0, -1]].min() - 1e-3:
            decided_by_side += 1
            assert contacts.gap[k, side[0]] < FAR
        elif not inner:
            assert contacts.gap[k, side[0]] == FAR or contacts.gap[k, side[0]] >= best - 1e-4
    assert decided_by_side > POSES / 10


def test_box_on_a_plane_touches_with_the_corners_of_its_lowest_face(scene, seen):
    contacts, kin, _ = seen
    up = np.array([np.sin(0.4), 0, np.cos(0.4)])
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    local = np.array([0, 0, 0.1]) + signs * [0.1, 0.2, 0.3] @ rotation_matrix(TURN).T
    corners = kin.link_pos[:, 3, None] + np.einsum("nij,cj->nci", kin.link_rot[:, 3], local)
    slots = slots_of(scene, "crate", "slope")
    gap = (corners - [0, 0, -0.2]) @ up
    below = corners - up * gap[..., None] / 2
    axes = kin.link_rot[:, 3] @ rotation_matrix(TURN)
    down = np.einsum("nij,i->nj", axes, -up)  # how much each axis of the box looks down
    face = np.abs(down).argmax(axis=1)
    for k in range(len(gap)):
        mine = signs[:, face[k]] == np.sign(down[k, face[k]])
        assert mine.sum() == 4 and mine[gap[k].argmin()]
        order, wanted = np.argsort(contacts.gap[k, slots]), np.argsort(gap[k, mine])
        found = contacts.gap[k, slots][order], contacts.point[k, slots][order]
        np.testing.assert_allclose(found[0], gap[k, mine][wanted], atol=1e-12)
        np.testing.assert_allclose(found[1], below[k, mine][wanted], atol=1e-12)


def test_lowest_point_of_all_shapes(scene, seen):
    _, kin, low = seen
    lows = [kin.link_pos[:, 0, 2] + 0.1 * kin.link_rot[:, 0, 2, 0] - 0.2]
    for name, radii in RADII.items():
        lows.append((ends(scene, kin, name)[..., 2] - radii).min(axis=1))
    turned = kin.link_rot[:, 3] @ rotation_matrix(TURN)
    centre = kin.link_pos[:, 3, 2] + 0.1 * kin.link_rot[:, 3, 2, 2]
    lows.append(centre - np.abs(turned[:, 2]) @ [0.1, 0.2, 0.3])
    np.testing.assert_allclose(low, np.min(lows, axis=0), atol=1e-12)


# ---- balls covered by a neighbour's ----------------------------------------------------------


def test_pruned_balls_never_decide(look):
    """The deepest gap over the 18 kept balls is that over all 32, on the ground and the chair."""
    model = planar_human(chair_height=0.45)
    top = model.topology
    full = dataclasses.replace(top, covered_ends=())
    assert len(top.covered_ends) == 14
    rng = np.random.default_rng(1)
    q = rng.uniform(-np.pi, np.pi, size=(POSES, top.nq))
    q[:, :2] = rng.uniform(-0.5, 1.0, size=(POSES, 2))
    contacts, kin, _ = jax.tree.map(np.asarray, look(model, q))
    every, *_ = jax.tree.map(np.asarray, look(model.replace(topology=full), q))

    size = np.asarray(model.shape_size)
    lowest = np.full(POSES, np.inf)
    for name in top.link_names:
        s, link = top.shape(name), top.link(name)
        for end, sign in ((0, 0.0), (1, -2.0)):
            centre = kin.link_pos[:, link] + sign * size[s, 2] * kin.link_rot[:, link, :, 0]
            lowest = np.minimum(lowest, centre[:, 2] - size[s, end])
    ground = contact_slots(top).shape_b == top.shape("ground")
    np.testing.assert_allclose(contacts.gap[:, ground].min(axis=1), lowest, atol=1e-12)

    assert every.gap.shape[1] == 32 + 32 + 16
    for world in ("ground", "chair"):
        kept = contact_slots(top).shape_b == top.shape(world)
        all_slots = contact_slots(full).shape_b == top.shape(world)
        deepest = every.gap[:, all_slots].min(axis=1)
        assert (deepest < 0).any()
        np.testing.assert_allclose(contacts.gap[:, kept].min(axis=1), deepest, atol=1e-12)


def test_hands_touch_the_chair_and_the_ground(look):
    """Arms that hang over the seat, and beside it; each hand by its tip."""
    height, depth = 0.45, 1e-3
    model = planar_human(chair_height=height)
    top, slots, size = model.topology, contact_slots(model.topology), np.asarray(model.shape_size)
    q = np.zeros((POSES, top.nq))
    q[:, 2] = np.pi / 2  # upright, all joints straight
    _, kin, _ = jax.tree.map(np.asarray, look(model, q))
    hands = [(top.link(name), top.shape(name)) for name in ("leftHand", "rightHand")]
    link, shape = hands[0]
    tip = kin.link_pos[0, link, 2] - 2 * size[shape, 2] - size[shape, 1]
    places = {"chair": (0.0, height), "ground": (1.0, 0.0)}
    for k, (x, z) in enumerate(places.values()):
        q[k, :2] = x, z - depth - tip
    contacts, _, _ = jax.tree.map(np.asarray, look(model, q))
    for k, world in enumerate(places):
        for link, _ in hands:
            here = (slots.link_a == link) & (slots.shape_b == top.shape(world))
            deepest = np.flatnonzero(here)[np.argmin(contacts.gap[k, here])]
            np.testing.assert_allclose(contacts.gap[k, deepest], -depth, atol=1e-12)
            np.testing.assert_allclose(contacts.normal[k, deepest], [0, 0, 1], atol=1e-12)


def two_links(friction: float, radius: float, offset: float = 0.0) -> tuple:
    b = ModelBuilder()
    joint = [hinge("turn", (0, 1, 0))]
    b.add_link("upper", "world", joints=[free("float")], **BODY)
    b.add_link("lower", "upper", pos=(-1, 0, 0), joints=joint, **BODY)
    b.add_shape("upper", tapered_capsule(0.1, 0.2, 0.5, pos=(-0.5, 0, 0), name="upper"))
    lower = tapered_capsule(
        radius, 0.1, 0.5, pos=(offset - 0.5, 0, 0), name="lower", friction=friction
    )
    b.add_shape("lower", lower)
    b.add_shape("world", plane(name="ground"))
    return b.build().topology.covered_ends


@pytest.mark.parametrize(
    ("friction", "radius", "offset", "covered"),
    [
        (0.8, 0.15, 0.0, ((1, 0),)),  # smaller than the parent's
        (0.8, 0.25, 0.0, ((0, 1),)),  # larger
        (0.8, 0.2, 0.0, ((1, 0),)),  # equal: the child's goes
        (0.5, 0.15, 0.0, ()),  # another surface
        (0.8, 0.15, 0.01, ()),  # not concentric
    ],
)
def test_only_concentric_smaller_balls_of_the_same_surface_are_covered(
    friction, radius, offset, covered
):
    assert two_links(friction, radius, offset) == covered


# ---- gradients -------------------------------------------------------------------------------

SPOTS = {
    "over a face": (0.1, 0.05, 0.4),
    "over an edge": (0.1, 0.45, 0.35),
    "off a corner": (0.7, 0.4, 0.3),
    "inside": (0.2, 0.1, 0.15),
}
FLAT = {
    "on a face": (0.1, 0.05, 0.2),
    "on a corner": (0.5, 0.3, 0.2),
    "at the centre": (0.0, 0.0, 0.0),
    "as far from two faces": (0.4, 0.2, 0.0),
}


def differences(function, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    columns = [
        (np.asarray(function(x + h * e)) - np.asarray(function(x - h * e))) / (2 * h)
        for e in np.eye(x.size).reshape(-1, *x.shape)
    ]
    return np.stack(columns, axis=-1)


@pytest.fixture(scope="module")
def ball_gap():
    """Gap, point and normal of a ball at the block, and their reverse and forward Jacobians."""

    def place(center):
        point, normal, gap = ball_box(center, 0.15, jnp.zeros(3), jnp.eye(3), jnp.asarray(HALF))
        return jnp.concatenate([point, normal, gap[None]])

    def one(center):
        return place(center), jax.jacrev(place)(center), jax.jacfwd(place)(center)

    return quick_jit(one)


@pytest.mark.parametrize("spot", SPOTS)
def test_ball_box_gradient_is_that_of_finite_differences(ball_gap, spot):
    x = np.array(SPOTS[spot])
    _, reverse, forward = ball_gap(x)
    np.testing.assert_allclose(reverse, forward, atol=1e-12)
    np.testing.assert_allclose(reverse, differences(lambda x: ball_gap(x)[0], x), atol=1e-6)


@pytest.mark.parametrize("spot", FLAT)
def test_ball_box_gradient_is_finite_where_the_nearest_face_changes(ball_gap, spot):
    value, reverse, forward = ball_gap(np.array(FLAT[spot]))
    np.testing.assert_allclose(np.linalg.norm(value[3:6]), 1, atol=1e-12)
    np.testing.assert_allclose(value[6], signed_distance(np.array(FLAT[spot])) - 0.15, atol=1e-12)
    assert np.isfinite(reverse).all() and np.isfinite(forward).all()
    np.testing.assert_allclose(np.linalg.norm(reverse[6]), 1, atol=1e-12)  # of the gap


def test_box_distance_is_one_lipschitz_with_its_gradient():
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 1, size=(500, 3))
    distance, gradient = quick_jit(jax.vmap(lambda p: box_distance(p, jnp.asarray(HALF))))(points)
    np.testing.assert_allclose(distance, signed_distance(points), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(gradient, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(
        signed_distance(points - gradient * np.asarray(distance)[:, None]), 0, atol=1e-12
    )


SEGMENTS = {
    "across an edge": [[0.9, 0.1, -0.1], [0.2, 0.0, 0.7]],
    "over a corner": [[0.9, 0.5, 0.0], [0.2, 0.3, 0.6]],
    "tilted over a face": [[0.9, 0.1, 0.45], [-0.9, 0.2, 0.35]],
}


def deepest(segment: np.ndarray, radii: np.ndarray) -> float:
    """Least gap over the segment, by ternary search (the gap is convex)."""
    low, high = 0.0, 1.0

    def gap(s):
        centre = segment[0] + s * (segment[1] - segment[0])
        return float(signed_distance(centre) - (radii[0] + s * (radii[1] - radii[0])))

    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if gap(a) < gap(b) else (a, high)
    return gap((low + high) / 2)


@pytest.fixture(scope="module")
def side_gap():
    """Gap of a tapered side at the block and its gradient; and whether the side counts."""
    zero, eye, half, radii = np.zeros(3), np.eye(3), HALF, np.array([0.15, 0.1])

    def gap(segment):
        return side_box(segment, jnp.asarray(radii), zero, eye, jnp.asarray(half))[2]

    def one(segment):
        point, normal, value, counts = side_box(segment, radii, zero, eye, half)
        return point, normal, value, counts, jax.jacrev(gap)(segment), jax.jacfwd(gap)(segment)

    return quick_jit(jax.vmap(one))


def test_side_box_gradient_is_that_of_the_deepest_point(side_gap):
    segments = np.array(list(SEGMENTS.values()))
    point, normal, gap, counts, reverse, forward = side_gap(segments)
    radii = np.array([0.15, 0.1])
    np.testing.assert_allclose(reverse, forward, atol=1e-12)
    assert np.asarray(counts).sum() >= 2
    for k, segment in enumerate(segments):
        np.testing.assert_allclose(gap[k], deepest(segment, radii), atol=1e-4)
        if counts[k]:
            wanted = differences(lambda x: deepest(x, radii), segment, 1e-5).reshape(2, 3)
            np.testing.assert_allclose(reverse[k], wanted, atol=1e-3)
        assert np.isfinite(point[k]).all()
        np.testing.assert_allclose(np.linalg.norm(normal[k]), 1, atol=1e-12)


def test_side_box_is_finite_where_it_lies_flat(side_gap):
    """Along a face, through the box, through its centre, and shrunk to a point."""
    flat = np.array(
        [
            [[0.9, 0.1, 0.1], [-0.9, 0.2, 0.15]],
            [[0.9, 0, 0.3], [-0.9, 0, 0.3]],
            [[0.9, 0, 0.0], [-0.9, 0, 0.0]],
            [[0.1, 0.1, 0.6], [0.1, 0.1, 0.6]],
        ]
    )
    *values, _, reverse, forward = side_gap(flat)
    for value in (*values, reverse, forward):
        assert np.isfinite(value).all()


def test_ball_plane_gradient_moves_with_the_plane():
    """Turning the plane about y by a: d gap / d a is the arm along the slope."""

    def gap(a, centre):
        c, s = jnp.cos(a), jnp.sin(a)
        rot = jnp.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        return ball_plane(centre, 0.1, jnp.zeros(3), rot)[2]

    value = quick_jit(jax.grad(gap, (0, 1)))(0.0, jnp.array([0.7, 0.2, 0.1]))
    np.testing.assert_allclose(value[0], 0.7, atol=1e-12)
    np.testing.assert_allclose(value[1], [0, 0, 1], atol=1e-12)


# ---- precision, batching, what cannot touch --------------------------------------------------


def test_float32_gives_the_same_contacts(look, poses, seen):
    with jax.enable_x64(False):
        model = build_scene()
        contacts, *_ = look(model, poses[:50].astype(np.float32))
    assert contacts.gap.dtype == contacts.normal.dtype == np.float32
    pairs = [i for i in range(seen[0].gap.shape[1]) if i not in rows(model, "box_box")]
    side = list(rows(model, "side_box"))
    gap, wanted = np.asarray(contacts.gap), seen[0].gap[:50]
    both = (gap[:, side] < FAR) & (wanted[:, side] < FAR)
    assert np.abs(gap[:, side] - wanted[:, side])[both].max() < 1e-4
    ends_only = [i for i in pairs if i not in side]
    np.testing.assert_allclose(gap[:, ends_only], wanted[:, ends_only], atol=1e-5)


def test_a_batch_is_its_members(scene, look, poses, seen):
    for k in (0, 7):
        contacts, _, low = look(scene, poses[k : k + 1])
        np.testing.assert_allclose(contacts.gap[0], seen[0].gap[k], atol=1e-9)
        np.testing.assert_allclose(low[0], seen[2][k], atol=1e-12)


def test_a_model_without_shapes_has_no_contacts():
    b = ModelBuilder()
    b.add_link("link", "world", joints=[free("float")], **BODY)
    model = b.build()
    assert contact_slots(model.topology).count == 0
    empty = jax.eval_shape(
        lambda q: find_contacts(model, forward_kinematics(model, q, jnp.zeros(6))), jnp.zeros(7)
    )
    assert empty.gap.shape == (0,) and empty.normal.shape == (0, 3)


@pytest.mark.parametrize("pair", [("block", "marble"), ("slope", "slope"), ("slope", "block")])
def test_pairs_without_a_routine_are_named(scene, pair):
    top = scene.topology
    wrong = dataclasses.replace(top, shape_pairs=(tuple(top.shape(name) for name in pair),))
    with pytest.raises(ModelError, match=rf"'{pair[0]}' \(\w+\) and '{pair[1]}' .* cannot touch"):
        contact_slots(wrong)


# ---- every family at once --------------------------------------------------------------------


def build_all():
    """A ball, a cone and a crate over bars, a ball and a height field of the world."""
    b = ModelBuilder()
    shapes = (
        sphere(0.1),
        tapered_capsule(0.1, 0.06, 0.2),
        box((0.1, 0.15, 0.1)),
        capsule(0.1, 0.2),
    )
    for name, shape in zip(("ball", "cone", "crate", "rod"), shapes, strict=True):
        b.add_link(name, "world", joints=[free(name + "_free")], **BODY)
        b.add_shape(name, dataclasses.replace(shape, name=name))
    b.add_shape("world", capsule(0.05, 0.6, name="bar", pos=(0, 0, 0.3), quat=TURN))
    b.add_shape("world", sphere(0.3, name="dome"))
    heights = 0.1 * np.random.default_rng(0).normal(size=(7, 6))
    b.add_shape("world", height_field(heights, (1.0, 0.8), name="rubble", quat=SLOPE))
    b.add_shape("world", height_field(heights[:2, :2], (2.0, 2.0), name="ramp", pos=(0, 0, -0.5)))
    b.add_self_collision()
    return b.build()


@pytest.fixture(scope="module")
def everything(x64_module):
    """The model of all families, contacts as a function of q, and poses."""
    model = build_all()
    rng = np.random.default_rng(3)
    q = rng.normal(size=(8, 4, 7))
    q[..., :3] = 0.4 * rng.normal(size=(8, 4, 3)) + [0, 0, 0.2]
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)

    def one(q):
        kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv))
        return find_contacts(model, kin)

    return model, one, q.reshape(8, 28)


def test_the_slots_of_all_families():
    slots = contact_slots(build_all().topology)
    at_crate = (1 + 3 + 3) + (3 + 1)  # of links, then of the world
    of_balls = (1 + 1 + 2) + (1 + 1) + 2 * (2 + 1)
    on_field = 2 + 2 * (4 + 2) + 24
    assert slots.count == at_crate + of_balls + 2 * on_field


@pytest.mark.slow
def test_all_families_run_as_one_kernel(everything):
    """Under the fused back end as under XLA."""
    _, one, q = everything
    expected = quick_jit(jax.vmap(one))(q)
    for x, y in zip(jax.tree.leaves(fuse(one)(q)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-9)


@pytest.mark.slow
def test_overlapping_pairs_are_those_with_a_slot_below_zero(scene, look, poses):
    for q in poses[:3]:
        contacts, *_ = look(scene, q[None])
        slots, top = contact_slots(scene.topology), scene.topology
        deep = np.asarray(contacts.gap[0]) < 0
        named = {
            (top.shape_names[a], top.shape_names[b])
            for a, b in zip(slots.shape_a[deep], slots.shape_b[deep], strict=True)
        }
        assert set(overlapping_pairs(scene, jnp.asarray(q))) == named
