"""Boxes against boxes: placements with known answers, MuJoCo, invariances, gradients."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import lsq_linear

from jaxsim.collision.box_box import ALIKE, FAR, PREFER, RIM, SLOTS, box_box
from jaxsim.math.rotation import quat_normalize, quat_to_matrix

pytestmark = pytest.mark.usefixtures("x64_module")

EYE = np.eye(3)
CUBE = np.full(3, 0.5)
SLAB = np.array([2.0, 2.0, 0.5])  # its upper face is at z = 0.5
_contacts = jax.jit(box_box)


def contacts(*boxes):
    """Point, normal and gap as NumPy arrays; whatever the pose, they are finite and unit."""
    point, normal, gap = (np.asarray(x) for x in _contacts(*(np.asarray(x, float) for x in boxes)))
    assert point.shape == normal.shape == (SLOTS, 3) and gap.shape == (SLOTS,)
    assert np.isfinite(point).all() and np.isfinite(gap).all()
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, atol=1e-12)
    return point, normal, gap


def used(*boxes):
    """The same, only the slots in use."""
    point, normal, gap = contacts(*boxes)
    return point[gap < FAR], normal[gap < FAR], gap[gap < FAR]


def turn(axis, angle):
    """Rotation matrix about a coordinate axis."""
    quat = np.zeros(4)
    quat[0], quat[1 + "xyz".index(axis)] = np.cos(angle / 2), np.sin(angle / 2)
    return np.asarray(quat_to_matrix(jnp.asarray(quat)))


def random_rotation(rng, spread=None):
    """Of any angle, or of about ``spread`` [rad]."""
    quat = rng.normal(size=4)
    if spread is not None:
        quat[0] = 2 / spread
    return np.asarray(quat_to_matrix(quat_normalize(jnp.asarray(quat))))


def random_boxes(rng, apart, tilt=None):
    """Two turned boxes; a is moved from touching by ``apart`` [m] along a random direction.

    With a tilt [rad] their axes differ by little more than that.
    """
    half_a, half_b = rng.uniform(0.1, 0.5, (2, 3))
    rot_b = random_rotation(rng)
    rot_a = random_rotation(rng) if tilt is None else rot_b @ random_rotation(rng, tilt)
    axes, reach = axes_and_reach(rot_a, half_a, rot_b, half_b)
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    touching = np.min(reach / np.abs(axes @ direction))
    pos_b = rng.normal(size=3)
    return pos_b + (touching + apart) * direction, rot_a, half_a, pos_b, rot_b, half_b


def axes_and_reach(rot_a, half_a, rot_b, half_b):
    """The 15 axes, and along each the distance of the centres at which the boxes touch."""
    edges = np.cross(rot_a.T[:, None], rot_b.T[None]).reshape(9, 3)
    axes = np.concatenate([rot_b.T, rot_a.T, edges / np.linalg.norm(edges, axis=1)[:, None]])
    return axes, np.abs(axes @ rot_a) @ half_a + np.abs(axes @ rot_b) @ half_b


def largest_separation(pos_a, rot_a, half_a, pos_b, rot_b, half_b):
    axes, reach = axes_and_reach(rot_a, half_a, rot_b, half_b)
    return np.max(np.abs(axes @ (pos_a - pos_b)) - reach)


def true_distance(pos_a, rot_a, half_a, pos_b, rot_b, half_b):
    bounds = np.r_[-half_a, -half_b], np.r_[half_a, half_b]
    nearest = lsq_linear(np.hstack([rot_a, -rot_b]), pos_b - pos_a, bounds, tol=1e-14)
    return np.sqrt(2 * nearest.cost)


def by_position(points):
    return points[np.lexsort(np.round(points, 9).T)]


@pytest.mark.parametrize("gap", [-0.01, 0.0, 0.02])
@pytest.mark.parametrize("yaw", [0.0, 0.3, np.pi / 4])
def test_box_rests_on_a_slab(gap, yaw):
    rot = turn("z", yaw)
    point, normal, found = used([0.3, -0.2, 1 + gap], rot, CUBE, np.zeros(3), EYE, SLAB)
    corners = np.array([[x, y, 0] for x in (-0.5, 0.5) for y in (-0.5, 0.5)]) @ rot.T
    np.testing.assert_allclose(found, [gap] * 4, atol=1e-12)
    np.testing.assert_allclose(normal, [[0, 0, 1]] * 4, atol=1e-12)
    expected = corners + np.array([0.3, -0.2, 0.5 + gap / 2])
    np.testing.assert_allclose(by_position(point), by_position(expected), atol=1e-12)


def test_slab_lies_on_a_box():
    """Only the corners of the reference face exist."""
    point, normal, gap = used([0.1, 0.2, 0.99], turn("z", 0.2), SLAB, np.zeros(3), EYE, CUBE)
    np.testing.assert_allclose(gap, [-0.01] * 4, atol=1e-12)
    np.testing.assert_allclose(normal, [[0, 0, 1]] * 4, atol=1e-12)
    expected = np.array([[x, y, 0.495] for x in (-0.5, 0.5) for y in (-0.5, 0.5)])
    np.testing.assert_allclose(by_position(point), by_position(expected), atol=1e-12)


def test_planks_cross():
    along_x, along_y = np.array([1.0, 0.1, 0.02]), np.array([0.08, 1.0, 0.02])
    point, _, gap = used([0, 0, 0.039], EYE, along_y, np.zeros(3), EYE, along_x)
    np.testing.assert_allclose(gap, [-0.001] * 4, atol=1e-12)
    expected = np.array([[x, y, 0.0195] for x in (-0.08, 0.08) for y in (-0.1, 0.1)])
    np.testing.assert_allclose(by_position(point), by_position(expected), atol=1e-5)


def test_equal_boxes_stacked_exactly():
    _, _, gap = used([0, 0, 1.0], EYE, CUBE, np.zeros(3), EYE, CUBE)
    np.testing.assert_allclose(gap, [0] * 4, atol=1e-12)


def test_two_turned_faces_overlap_in_an_octagon():
    _, _, gap = used([0, 0, 1.0], turn("z", np.pi / 4), CUBE, np.zeros(3), EYE, CUBE)
    np.testing.assert_allclose(gap, [0] * 8, atol=1e-12)


@pytest.mark.parametrize("upside_down", [False, True])
def test_corner_enters_a_face(upside_down):
    rot = turn("x", 0.5) @ turn("y", 0.6) @ turn("z", 0.4)
    lowest = -np.abs(rot) @ CUBE
    corner = -rot @ (np.sign(rot[2]) * CUBE)
    pos = np.array([0.2, 0.1, 0.5 - 0.03 - lowest[2]])
    a, b = (pos, rot, CUBE), (np.zeros(3), EYE, SLAB)
    point, normal, gap = contacts(*b, *a) if upside_down else contacts(*a, *b)
    deepest = gap.argmin()
    np.testing.assert_allclose(gap[deepest], -0.03, atol=1e-12)
    expected = pos + corner + np.array([0, 0, 0.015])
    np.testing.assert_allclose(point[deepest], expected, atol=1e-12)
    np.testing.assert_allclose(normal[deepest], [0, 0, -1 if upside_down else 1], atol=1e-12)


@pytest.mark.parametrize("gap", [-0.02, 0.03])
def test_edges_cross(gap):
    """Both boxes stand on an edge; the upper one is turned about the vertical and shifted."""
    top = CUBE[0] * np.sqrt(2)
    rot_a, rot_b = turn("z", 1.1) @ turn("x", np.pi / 4), turn("x", np.pi / 4)
    shift = rot_a @ np.array([0.2, 0, 0]) + np.array([0.1, 0, 0])
    pos_a = np.array([0, 0, 2 * top + gap]) + shift
    point, normal, found = used(pos_a, rot_a, CUBE, np.zeros(3), rot_b, CUBE)
    np.testing.assert_allclose(found, [gap], atol=1e-12)
    np.testing.assert_allclose(normal, [[0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(point, [[0.1, 0, top + gap / 2]], atol=1e-12)


def test_boxes_apart_diagonally():
    """The axis with the largest separation is reported, a lower bound of the distance."""
    _, normal, gap = used([1.2, 1.1, 1.3], EYE, CUBE, np.zeros(3), EYE, CUBE)
    np.testing.assert_allclose(gap, [0.3], atol=1e-12)
    np.testing.assert_allclose(normal, [[0, 0, 1]], atol=1e-12)


def test_separated_boxes():
    """0 < gap <= distance; equality where the nearest features are faces or crossing edges."""
    rng = np.random.default_rng(1)
    equal = 0
    for _ in range(60):
        boxes = random_boxes(rng, rng.uniform(0.005, 0.3))
        distance, gap = true_distance(*boxes), contacts(*boxes)[2].min()
        # Where an edge yields to a face, the gap is measured along another normal.
        assert 0 < gap <= (distance + RIM * 0.5) / ALIKE
        equal += gap > distance - 1e-6
    assert equal > 20


@pytest.mark.parametrize("tilt", [None, 3e-3, 0.03])
@pytest.mark.parametrize("apart", [-0.01, 0.02])
def test_least_gap_is_the_largest_separation(tilt, apart):
    """Within the stated tolerances; of overlapping boxes it is the depth along the axis."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        boxes = random_boxes(rng, apart, tilt)
        separation, gap = largest_separation(*boxes), contacts(*boxes)[2].min()
        least = min(boxes[2].min(), boxes[5].min())
        above = (1 / ALIKE - 1) * abs(separation) + RIM * least
        assert separation - PREFER * least - above <= gap <= separation + above


def test_penetration_as_in_mujoco():
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(2)
    faces = edges = 0
    for _ in range(80):
        boxes = random_boxes(rng, -rng.uniform(0.001, 0.01))
        distance, normal_theirs = mujoco_contacts(mujoco, *boxes)
        _, normal, gap = contacts(*boxes)
        mine, theirs = gap.argmin(), distance.argmin()
        if normal[mine] @ normal_theirs[theirs] < 1 - 1e-8:
            assert abs(gap[mine] - distance[theirs]) < 1e-4  # another axis, nearly as good
            continue
        np.testing.assert_allclose(gap[mine], distance[theirs], atol=1e-6)
        assert np.sum(gap < 0) == len(distance)
        faces, edges = faces + (mine < 12), edges + (mine == 12)
    assert faces > 20 and edges > 20 and faces + edges > 75


def test_resting_points_as_in_mujoco():
    """Yaw and shift at random, slightly tilted: as many points, as deep."""
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(3)
    for _ in range(30):
        half_a, half_b = rng.uniform(0.1, 0.5, (2, 3))
        rot = turn("z", rng.uniform(0, 6)) @ turn("x", rng.uniform(-3e-3, 3e-3))
        shift = rng.uniform(-0.7, 0.7, 2) * half_b[:2]
        pos = np.array([*shift, half_a[2] + half_b[2] - 0.005])
        boxes = pos, rot, half_a, np.zeros(3), EYE, half_b
        distance, _ = mujoco_contacts(mujoco, *boxes)
        gap = contacts(*boxes)[2]
        np.testing.assert_allclose(np.sort(gap[gap < 0]), np.sort(distance), atol=1e-4)


def mujoco_contacts(mujoco, *boxes):
    """Distances (n,) and normals (n, 3) from b to a."""
    world = mujoco.MjSpec()
    for pos, rot, half in (boxes[3:], boxes[:3]):
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rot).ravel())
        body = world.worldbody.add_body(pos=pos, quat=quat)
        body.add_freejoint()
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half)
    model = world.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.ncon > 0
    return data.contact.dist.copy(), data.contact.frame[:, :3].copy()


@hypothesis.given(st.integers(0, 2**31), st.floats(-0.05, 0.05))
def test_swapping_the_boxes_flips_the_normals(seed, apart):
    boxes = random_boxes(np.random.default_rng(seed), apart)
    _, normal, gap = contacts(*boxes)
    _, normal_swapped, gap_swapped = contacts(*boxes[3:], *boxes[:3])
    one, other = gap.argmin(), gap_swapped.argmin()
    # b's faces are preferred by a little, so a nearly equal axis may win after the swap.
    tolerance = 1e-10 if normal[one] @ normal_swapped[other] < -1 + 1e-9 else PREFER / 2
    np.testing.assert_allclose(gap[one], gap_swapped[other], atol=tolerance)


@hypothesis.given(st.integers(0, 2**31), st.floats(-0.05, 0.05))
def test_a_common_motion_moves_the_contacts_along(seed, apart):
    rng = np.random.default_rng(seed)
    boxes = random_boxes(rng, apart)
    rot, shift = random_rotation(rng), rng.normal(size=3)
    pos_a, rot_a, half_a, pos_b, rot_b, half_b = boxes
    point, normal, gap = contacts(*boxes)
    point_2, normal_2, gap_2 = contacts(
        rot @ pos_a + shift, rot @ rot_a, half_a, rot @ pos_b + shift, rot @ rot_b, half_b
    )
    np.testing.assert_allclose(gap_2, gap, atol=1e-9)
    on = gap < FAR
    np.testing.assert_allclose(point_2[on], (point @ rot.T + shift)[on], atol=1e-9)
    np.testing.assert_allclose(normal_2, normal @ rot.T, atol=1e-9)


def test_sliding_is_continuous():
    """A tilted box slides across and off a slab: the least gap has no jumps."""
    rot = turn("z", 0.3) @ turn("x", 0.2) @ turn("y", 0.1)
    pos = np.linspace([0, 0, 1.08], [3.2, 0.4, 1.08], 1601)
    each = jax.jit(jax.vmap(box_box, (0, None, None, None, None, None)))
    _, _, gap = each(pos, rot, CUBE, np.zeros(3), EYE, SLAB)
    least = np.asarray(gap).min(axis=1)
    assert least[0] < -0.01 and least[-1] > 0.2
    step = np.linalg.norm(pos[1] - pos[0])
    assert np.abs(np.diff(least)).max() <= step + PREFER * 0.5


def test_least_gap_slopes_like_its_differences():
    """Along motions of a's position and orientation, away from changes of the axis."""
    rng = np.random.default_rng(4)

    @jax.jit
    def least(move, boxes):
        pos_a, rot_a, *rest = boxes
        rot = quat_to_matrix(quat_normalize(jnp.concatenate([jnp.ones(1), move[3:] / 2])))
        return jnp.min(box_box(pos_a + move[:3], rot @ rot_a, *rest)[2])

    slope = jax.jit(jax.grad(least))
    smooth = 0
    for _ in range(30):
        boxes = random_boxes(rng, rng.uniform(-0.03, 0.03))
        h = 1e-5 * np.eye(6)
        plus, minus = (np.array([least(s * x, boxes) for x in h]) for s in (1, -1))
        found = np.asarray(slope(np.zeros(6), boxes))
        if np.abs(plus + minus - 2 * least(np.zeros(6), boxes)).max() > 1e-8:
            continue  # another slot takes over within the step
        np.testing.assert_allclose(found, (plus - minus) / 2e-5, atol=1e-5)
        smooth += 1
    assert smooth > 25


DEGENERATE = {
    "coincident": (np.zeros(3), EYE, CUBE, np.zeros(3), EYE, CUBE),
    "stacked": ([0, 0, 1], EYE, CUBE, np.zeros(3), EYE, CUBE),
    "side by side at a rim": ([1, 1, 0], EYE, CUBE, np.zeros(3), EYE, CUBE),
    "corner to corner": ([1, 1, 1], EYE, CUBE, np.zeros(3), EYE, CUBE),
    "apart diagonally": ([1.2, 1.2, 1.2], EYE, CUBE, np.zeros(3), EYE, CUBE),
    "nearly parallel": ([0.1, 0, 1], turn("z", 1e-9), CUBE, np.zeros(3), turn("x", 1e-8), SLAB),
    "quarter turn": ([0, 0, 1], turn("z", np.pi / 2), CUBE, np.zeros(3), EYE, CUBE),
    "on an edge": ([0, 0, 1.2], turn("x", np.pi / 4), CUBE, np.zeros(3), EYE, CUBE),
    "edge along edge": ([0, 0, 1.4], turn("x", np.pi / 4), CUBE, [0] * 3, turn("x", -0.7), CUBE),
    "edges just askew": ([0, 0, 1], turn("z", 1e-3), CUBE, np.zeros(3), turn("x", 1e-3), CUBE),
    "inside": ([0.1, 0, 0], EYE, CUBE / 4, np.zeros(3), EYE, SLAB),
    "far": ([40, 30, 20], turn("y", 0.5), CUBE, np.zeros(3), EYE, CUBE),
}


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_degenerate_poses_stay_finite(dtype):
    """Values and derivatives along random directions, forward and reverse, all in one batch."""
    rng = np.random.default_rng(0)
    boxes = tuple(np.array(x, dtype) for x in zip(*DEGENERATE.values(), strict=True))
    tangent = tuple(rng.normal(size=x.shape).astype(dtype) for x in boxes)
    shapes = ((SLOTS, 3), (SLOTS, 3), (SLOTS,))
    weight = tuple(rng.normal(size=(len(boxes[0]), *x)).astype(dtype) for x in shapes)

    @jax.jit
    @jax.vmap
    def derivatives(boxes, tangent, weight):
        values, forward = jax.jvp(box_box, boxes, tangent)
        return values, forward, jax.vjp(box_box, *boxes)[1](weight)

    values, forward, reverse = derivatives(boxes, tangent, weight)
    for leaf in jax.tree.leaves((values, forward, reverse)):
        assert leaf.dtype == dtype
        bad = ~np.isfinite(np.asarray(leaf)).reshape(len(DEGENERATE), -1).all(axis=1)
        assert not bad.any(), np.array(list(DEGENERATE))[bad]
    np.testing.assert_allclose(np.linalg.norm(values[1], axis=-1), 1, atol=1e-6)
    products = [
        sum(np.sum(np.float64(x) * np.float64(y), axis=tuple(range(1, x.ndim))) for x, y in pairs)
        for pairs in (zip(weight, forward, strict=True), zip(reverse, tangent, strict=True))
    ]
    np.testing.assert_allclose(*products, rtol=1e-3 if dtype == "float32" else 1e-9)


def test_float32_agrees_with_float64():
    rng = np.random.default_rng(5)
    for _ in range(20):
        boxes = random_boxes(rng, rng.uniform(-0.03, 0.03))
        single = _contacts(*(np.asarray(x, np.float32) for x in boxes))[2]
        np.testing.assert_allclose(single.min(), contacts(*boxes)[2].min(), atol=2e-4)
