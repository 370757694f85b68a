"""Acceleration constraints on random mechanisms, and on cases with a known answer; float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.constraints import acceleration as ac
from jaxsim.dynamics.articulated import acceleration_deltas, articulated_body, articulated_inertia
from jaxsim.dynamics.kinematics import forward_kinematics, integrate, point_velocity
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.math.spatial import wrench_at
from jaxsim.model import ModelBuilder, free, hinge, slide
from jaxsim.simulation.constrained import enforce, resolve_impact
from jaxsim.solvers import lcp
from tests.compiling import quick_jit
from tests.oracles.random_trees import MIXED, chain, random_tree

pytestmark = pytest.mark.usefixtures("x64_module")

STRUCTURES = {
    "mixed": MIXED,
    "chain": chain(("free",), ("ball",), ("hinge",), ("hinge", "hinge"), ("slide",)),
    "branched": (
        (-1, ("hinge", "slide")),
        (0, ("ball",)),
        (0, ("hinge",)),
        (2, ("hinge", "hinge", "hinge")),
        (2, ("slide", "ball")),
    ),
}


@pytest.fixture(scope="module", params=STRUCTURES)
def mechanism(request, x64_module):
    """Model, q, qd, tau, and local points of the rows of ``some_rows``."""
    structure = STRUCTURES[request.param]
    tree = random_tree(structure, seed=3)
    rng = np.random.default_rng(4)
    q, v = tree.random_state(rng)
    tau = rng.normal(size=tree.model.topology.nv)
    moved = len(structure) - 1 if request.param != "mixed" else 5
    links = [moved, moved, 1, moved]  # the last two against other bodies
    return (
        tree.model,
        *map(jnp.asarray, (q[tree.q_index], v[tree.v_index], tau)),
        (links, [-1, -1, 0, 1], jnp.asarray(rng.normal(size=(4, 2, 3)))),
    )


def some_rows(model, kin, places) -> ac.AccelerationRows:
    """Two dofs, a point along two directions, and points relative to other links."""
    links, others, local = places
    link = np.array(links)
    at = kin.link_pos[link] + jnp.einsum("lij,lj->li", kin.link_rot[link], local[:, 0])
    at = at.at[1].set(at[0])
    points = ac.point_rows(
        model, kin, links, at, local[:, 1], jnp.array([0.3, -1.0, 2.0, 0.5]), others
    )
    return ac.stack_rows(
        ac.joint_rows(model, [0, model.topology.nv - 1], jnp.array([1.5, -2])), points
    )


def test_deltas_are_differences_of_abm_and_solutions_with_the_mass_matrix(mechanism):
    model, q, qd, tau, _ = mechanism
    top = model.topology
    rng = np.random.default_rng(5)
    force, torque = rng.normal(size=(top.n_links, 6)), rng.normal(size=top.nv)

    @quick_jit
    def run(q, qd, tau, force, torque):
        kin = forward_kinematics(model, q, qd)
        inertia = articulated_inertia(model, kin)
        before = articulated_body(model, kin, tau)
        rows = ac.AccelerationRows(force[None], torque[None], jnp.zeros(1), jnp.zeros(1))
        return {
            "deltas": acceleration_deltas(top, inertia, force, torque),
            "abm": articulated_body(model, kin, tau + torque, force) - before,
            "reuse": articulated_body(model, kin, tau + torque, force, inertia) - before,
            "mass": jnp.linalg.solve(mass_matrix(model, kin), ac.row_jacobian(model, kin, rows)[0]),
        }

    found = run(q, qd, tau, force, torque)
    scale = np.abs(found["mass"]).max()
    for name in ("deltas", "abm", "reuse"):
        np.testing.assert_allclose(found[name], found["mass"], atol=1e-10 * scale, err_msg=name)


def test_three_ways_fill_the_same_matrix(mechanism):
    model, q, qd, _, places = mechanism

    @quick_jit
    def run(q, qd):
        kin = forward_kinematics(model, q, qd)
        rows = some_rows(model, kin, places)
        J = ac.row_jacobian(model, kin, rows)
        return {m: J @ ac.net_effects(model, kin, rows, m).T for m in ac.METHODS}

    K = run(q, qd)
    scale = np.abs(K["mass"]).max()
    for method in ("deltas", "abm"):
        np.testing.assert_allclose(K[method], K["mass"], atol=1e-10 * scale, err_msg=method)
    np.testing.assert_allclose(K["mass"], K["mass"].T, atol=1e-10 * scale)
    with pytest.raises(ValueError, match="'aba': there are mass, deltas, abm"):
        ac.net_effects(model, None, None, "aba")


def accelerations(model, q, qd, qdd, places):
    """Of the rows of ``some_rows``, from velocities before and after, the direction held."""
    links, others, local = places
    first = forward_kinematics(model, q, qd)

    def speeds(t):
        kin = forward_kinematics(model, integrate(model, q, qd + 0.5 * t * qdd, t), qd + t * qdd)
        out = [(qd + t * qdd)[0], (qd + t * qdd)[-1]]
        for k, (link, other) in enumerate(zip(links, others)):
            own = local[0 if k == 1 else k, 0]
            at = first.link_pos[link] + first.link_rot[link] @ own
            for sign, body in ((1, link), (-1, other)):
                if body < 0:
                    continue
                place = first.link_rot[body].T @ (at - first.link_pos[body])
                now = kin.link_pos[body] + kin.link_rot[body] @ place
                out.append(sign * point_velocity(kin, body, now) @ local[k, 1])
            if other >= 0:
                out[-2:] = [out[-2] + out[-1]]
        return jnp.stack(out)

    return jax.jvp(speeds, (0.0,), (1.0,))[1]


def test_enforced_rows_have_the_acceleration_asked_for(mechanism):
    """Measured on the motion itself, all at once."""
    model, q, qd, tau, places = mechanism

    @quick_jit
    def run(q, qd, tau):
        kin = forward_kinematics(model, q, qd)
        rows = some_rows(model, kin, places)
        found = enforce(
            model,
            kin,
            tau,
            rows,
            solver=partial(lcp.gauss_seidel, iterations=20_000, early=True, tolerance=1e-11),
        )
        return found, rows.desired, accelerations(model, q, qd, found.qdd, places)

    found, desired, measured = run(q, qd, tau)
    assert found.solution.status == lcp.SOLVED
    np.testing.assert_allclose(measured, desired, atol=1e-7)


# ---- a ball on a plane, a pendulum -------------------------------------------------------------

MASS, G = 2.0, 9.81


def block(speed):
    """A body of mass 2 that only slides in x and z: model, kinematics, rows of its contact."""
    builder = ModelBuilder((0, 0, -G))
    joints = [slide("x", (1, 0, 0)), slide("z", (0, 0, 1))]
    builder.add_link("block", "world", mass=MASS, inertia=np.eye(3), joints=joints)
    model = builder.build()
    kin = forward_kinematics(model, jnp.zeros(2), jnp.asarray(speed, float))
    return model, kin


def contact(model, kin, normal, tangent, against):
    """Rows of one contact: normal, and the tangent that opposes the slip ``against``."""
    directions = jnp.array([[0, 0, 1.0], [-against, 0, 0]])
    at = jnp.zeros((2, 3))
    return ac.point_rows(model, kin, [0, 0], at, directions, jnp.array([normal, tangent]))


@pytest.mark.parametrize(
    ("speed", "push", "wanted"),
    [
        (1.0, 0.0, -0.3 * G),  # it slides
        (-1.0, 0.0, 0.3 * G),
        (0.0, 4.0, 0.0),  # below mu m g = 5.9 N it holds
        (0.0, 10.0, 10 / MASS - 0.3 * G),  # beyond, it does not
    ],
)
def test_a_block_slides_and_holds_as_coulomb_says(speed, push, wanted):
    """Equations 19 to 21, with a_td = -v_t / h."""
    h = 0.01
    model, kin = block([speed, 0])
    against = np.sign(speed) or 1.0
    rows = contact(model, kin, 0.0, abs(speed) / h, against)
    bounds = lcp.with_friction(jnp.array([0.3]))
    found = enforce(model, kin, jnp.array([push, 0.0]), rows, bounds)
    assert found.solution.status == lcp.SOLVED
    np.testing.assert_allclose(found.qdd, [wanted, 0], atol=1e-9)
    np.testing.assert_allclose(found.solution.force[0], MASS * G)


def test_a_contact_that_leaves_has_no_force():
    model, kin = block([0, 0])
    bounds = lcp.with_friction(jnp.array([0.3]))
    found = enforce(model, kin, jnp.array([0.0, 30.0]), contact(model, kin, 0, 0, 1.0), bounds)
    np.testing.assert_allclose(found.solution.force, 0)
    np.testing.assert_allclose(found.qdd, [0, 30 / MASS - G])


@pytest.mark.parametrize("restitution", [0.0, 0.6, 1.0])
def test_impact_with_restitution_and_friction(restitution):
    """v_n+ = -e v_n-; friction takes mu (1 + e) v_n from the slip, or all of it."""
    bounds = lcp.with_friction(jnp.array([0.25]))
    for slip in (3.0, 0.2):
        qd = jnp.array([slip, -2.0])
        model, kin = block(qd)
        rows = contact(model, kin, (1 + restitution) * 2.0, slip, 1.0)
        after = resolve_impact(model, kin, qd, rows, bounds).qdd
        left = max(slip - 0.25 * (1 + restitution) * 2.0, 0.0)
        np.testing.assert_allclose(after, [left, 2.0 * restitution], atol=1e-12)


def rod(links: int = 2):
    """A chain of rods of 1 kg and 1 m in the x-z plane, hanging from the world."""
    builder = ModelBuilder((0, 0, -G))
    above, place = "world", (0.0, 0.0, 0.0)
    for k in range(links):
        inertia = np.diag([1 / 12, 1 / 12, 1e-3])
        builder.add_link(
            f"rod{k}",
            above,
            pos=place,
            mass=1.0,
            com=(0, 0, -0.5),
            inertia=inertia,
            joints=[hinge(f"joint{k}", (0, -1, 0))],
        )
        above, place = f"rod{k}", (0.0, 0.0, -1.0)
    return builder.build()


def test_several_impacts_at_once_and_energy():
    """Elastic impacts of a double pendulum at two points keep the energy; both points turn back."""
    model = rod()
    q, qd = jnp.array([0.3, -0.5]), jnp.array([1.0, 2.0])
    kin = forward_kinematics(model, q, qd)
    ends = kin.link_pos + jnp.einsum("lij,j->li", kin.link_rot, jnp.array([0.0, 0, -1]))
    along = jnp.array([[-1.0, 0, 0], [-1.0, 0, 0]])
    before = jnp.sum(
        along * jax.vmap(lambda k, p: point_velocity(kin, k, p))(jnp.arange(2), ends), -1
    )
    assert (before < 0).all()
    rows = ac.point_rows(model, kin, [0, 1], ends, along, -2 * before)
    found = resolve_impact(model, kin, qd, rows, lcp.unilateral(2))
    later = forward_kinematics(model, q, found.qdd)
    after = jnp.sum(
        along * jax.vmap(lambda k, p: point_velocity(later, k, p))(jnp.arange(2), ends), -1
    )
    np.testing.assert_allclose(after, -before, rtol=1e-6)
    M = mass_matrix(model, kin)
    np.testing.assert_allclose(found.qdd @ M @ found.qdd, qd @ M @ qd, rtol=1e-6)


@pytest.mark.parametrize("remaining", [None, 0.1])
def test_a_controlled_joint_settles_as_equation_22_says_whatever_hangs_on_it(remaining):
    """The shoulder follows the critically damped curve while the elbow swings freely."""
    model, settling, h, steps = rod(), 0.3, 1e-4, 3000

    def one(carry, _):
        q, qd = carry
        kin = forward_kinematics(model, q, qd)
        wanted = ac.target_acceleration(1.0 - q[:1], -qd[:1], settling, remaining)
        rows = ac.joint_rows(model, [0], wanted)
        qdd = enforce(model, kin, jnp.zeros(2), rows, method="deltas").qdd
        qd = qd + h * qdd
        return (q + h * qd, qd), q

    start = jnp.zeros(2), jnp.zeros(2)
    _, path = quick_jit(lambda s: jax.lax.scan(one, s, length=steps))(start)
    rate = (1.0 if remaining is None else 3.8897202) / settling
    t = h * np.arange(steps)
    np.testing.assert_allclose(path[:, 0], 1 - (1 + rate * t) * np.exp(-rate * t), atol=2e-3)
    left = 1 - path[-1, 0]
    np.testing.assert_allclose(left, 2 / np.e if remaining is None else 0.1, atol=2e-3)
    assert np.abs(path[:, 1]).max() > 0.3


def test_a_settling_time_leaves_a_part_between_0_and_1():
    with pytest.raises(ValueError, match=r"remaining is 1\.5"):
        ac.target_acceleration(1.0, 0.0, 0.3, remaining=1.5)


def test_a_motion_control_row_and_a_contact_together_in_a_batch():
    """Bilateral and unilateral rows mixed; one member's NaN stays its own."""
    builder = ModelBuilder((0, 0, -G))
    builder.add_link("body", "world", mass=3.0, inertia=np.eye(3), joints=[free("root")])
    builder.add_link(
        "arm",
        "body",
        mass=1.0,
        com=(0.3, 0, 0),
        inertia=0.1 * np.eye(3),
        joints=[hinge("elbow", (0, 1, 0))],
    )
    model = builder.build()
    bounds = lcp.together(lcp.bilateral(1), lcp.unilateral(4))
    corners = jnp.array([[x, y, -0.1] for x in (-0.2, 0.2) for y in (-0.2, 0.2)])

    def one(qd, desired):
        q = jnp.zeros(model.topology.nq).at[3].set(1.0)
        kin = forward_kinematics(model, q, qd)
        up = jnp.tile(jnp.array([0, 0, 1.0]), (4, 1))
        rows = ac.stack_rows(
            ac.joint_rows(model, [6], desired[None]),
            ac.point_rows(model, kin, [0] * 4, corners, up, jnp.zeros(4)),
        )
        found = enforce(
            model,
            kin,
            jnp.zeros(7),
            rows,
            bounds,
            solver=partial(lcp.gauss_seidel, iterations=2000),
        )
        return found, rows.drift + ac.row_jacobian(model, kin, rows) @ found.qdd

    run = quick_jit(jax.vmap(one))
    desired = jnp.array([0.0, 2.0, -3.0])
    found, seen = run(jnp.zeros((3, 7)), desired)
    assert (found.solution.status == lcp.SOLVED).all()
    np.testing.assert_allclose(seen[:, 0], desired, atol=1e-4)
    assert (seen[:, 1:] > -1e-4).all()  # no corner goes down
    np.testing.assert_allclose(found.solution.force[0, 1:].sum(), 4 * G, rtol=1e-5)  # at rest
    broken, _ = run(jnp.zeros((3, 7)).at[1, 2].set(jnp.nan), desired)
    assert broken.solution.status.tolist() == [0, lcp.NOT_FINITE, 0]
    np.testing.assert_array_equal(broken.qdd[0], found.qdd[0])
    np.testing.assert_array_equal(broken.qdd[2], found.qdd[2])


def test_forces_on_links_enter_the_default_acceleration():
    model, kin = block([0, 0])
    pushed = (
        jnp.zeros((1, 6))
        .at[0]
        .set(wrench_at(jnp.zeros(3), kin.reference[0], jnp.array([5.0, 0, 0])))
    )
    rows = contact(model, kin, 0.0, 0.0, 1.0)
    found = enforce(
        model, kin, jnp.zeros(2), rows, lcp.with_friction(jnp.zeros(1)), link_force=pushed
    )
    np.testing.assert_allclose(found.qdd, [5 / MASS, 0], atol=1e-12)
