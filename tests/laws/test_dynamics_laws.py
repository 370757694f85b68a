"""Laws of mechanics that the dynamics must satisfy, whatever the mechanism; float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.dynamics import jacobians, momentum, rigid
from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.kinematics import forward_kinematics, integrate, point_velocity
from jaxsim.math.rotation import skew
from jaxsim.math.spatial import wrench_at
from jaxsim.model import ModelBuilder, ball, free, hinge
from jaxsim.simulation.integrators import runge_kutta
from tests.compiling import quick_jit
from tests.oracles.random_trees import FREE, random_tree

pytestmark = pytest.mark.usefixtures("x64_module")

RTOL = 1e-9
STATES = 4

# Two trees without a hold on the world.
FLOATING = (
    (-1, FREE),
    (0, ("hinge",)),
    (1, ("fixed",)),
    (2, ("ball",)),
    (0, ("hinge", "slide", "hinge")),
    (-1, FREE),
    (5, ("slide",)),
)
PUSHED = 3  # the link on which an external force acts


def close(got, wanted, rtol: float = RTOL, what: str = "") -> None:
    """To rtol of the largest entry wanted."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, what
    np.testing.assert_allclose(got, wanted, rtol=0, atol=rtol * np.abs(wanted).max(), err_msg=what)


def quantities(model, q, qd, tau, local, force):
    """Both sides of every law, for one state.

    A ``force`` [N] acts on the point ``local`` [m] of link PUSHED besides the torques tau.
    """
    top = model.topology
    kin = forward_kinematics(model, q, qd)
    point = kin.link_pos[PUSHED] + kin.link_rot[PUSHED] @ local
    J = jacobians.point_jacobian(model, kin, PUSHED, point)
    qdd = articulated_body(model, kin, tau + J.T @ force)

    def after(t, acceleration):
        return forward_kinematics(model, integrate(model, q, qd, t), qd + t * acceleration)

    def observed(t, acceleration):
        later = after(t, acceleration)
        velocity = qd + t * acceleration
        p = later.link_pos[PUSHED] + later.link_rot[PUSHED] @ local
        return {
            "point": p,
            "point velocity": point_velocity(later, PUSHED, p),
            "link_rot": later.link_rot,
            "com": jacobians.center_of_mass(model, later),
            "linear momentum": momentum.linear_momentum(model, later),
            "angular momentum": momentum.angular_momentum(model, later),
            "energy": momentum.kinetic_energy(model, later, velocity)
            + momentum.potential_energy(model, later),
        }

    def rate(acceleration):
        return jax.jvp(lambda t: observed(t, acceleration), (0.0,), (1.0,))[1]

    def potential(step):
        moved = forward_kinematics(model, integrate(model, q, step, 1.0), qd)
        return momentum.potential_energy(model, moved)

    carried = jnp.asarray(top.link_dofs, float)
    M = rigid.mass_matrix(model, kin)
    pair = jacobians.relative_torque(model, kin, carried[PUSHED] - carried[4], point, force)
    J_other = jacobians.point_jacobian(model, kin, 4, point)
    return {
        "kin": kin,
        "point": point,
        "qdd": qdd,
        "M": M,
        "h": rigid.bias_force(model, kin),
        "gravity": rigid.gravity_force(model, kin),
        "potential slope": jax.grad(potential)(jnp.zeros_like(qd)),
        "inverse": rigid.inverse_dynamics(model, kin, qdd),
        "generalised force": tau + J.T @ force,
        "kinetic": momentum.kinetic_energy(model, kin, qd),
        "rate": rate(qdd),
        "rate without acceleration": rate(0 * qdd),
        "com": jacobians.center_of_mass(model, kin),
        "com_velocity": jacobians.com_velocity(model, kin),
        "point_jacobian": J,
        "com_jacobian": jacobians.com_jacobian(model, kin),
        "angular_jacobian": jacobians.angular_jacobian(model, kin, PUSHED),
        "pair": pair,
        "pair by jacobians": (J - J_other).T @ force,
    }


@pytest.fixture(scope="module")
def laws(x64_module):
    """Model, inputs and quantities of STATES random states of two floating trees."""
    tree = random_tree(FLOATING, seed=5)
    model = tree.model
    # the inertia of a motor between a link and the world would be one more external force
    hold = np.array([model.topology.joint_kinds[j] == "free" for j in model.topology.dof_joint])
    model = model.replace(armature=jnp.where(hold, 0.0, model.armature))
    rng = np.random.default_rng(6)
    states = [tree.random_state(rng) for _ in range(STATES)]
    inputs = {
        "q": np.stack([q[tree.q_index] for q, _ in states]),
        "qd": np.stack([qd[tree.v_index] for _, qd in states]),
        "tau": np.where(hold, 0.0, rng.normal(size=(STATES, model.topology.nv))),
        "local": rng.normal(size=(STATES, 3)),
        "force": 10 * rng.normal(size=(STATES, 3)),
    }
    evaluate = quick_jit(quantities)
    results = [evaluate(model, *state) for state in zip(*inputs.values())]
    return model, inputs, jax.tree.map(lambda *x: np.stack(x), *results)


def times(matrices, vectors):
    return (matrices @ vectors[..., None])[..., 0]


def test_mass_matrix_is_symmetric_and_positive_definite(laws):
    _, _, x = laws
    M = np.asarray(x["M"])
    np.testing.assert_array_equal(M, np.swapaxes(M, -1, -2))
    assert np.linalg.eigvalsh(M).min() > 0


def test_kinetic_energy_is_half_qd_M_qd(laws):
    _, inputs, x = laws
    qd = inputs["qd"]
    close(x["kinetic"], np.sum(qd * times(x["M"], qd), -1) / 2)


def test_equation_of_motion_ties_crba_rnea_and_aba(laws):
    _, _, x = laws
    close(times(x["M"], x["qdd"]) + x["h"], x["generalised force"], what="M qdd + h = tau")
    close(x["inverse"], x["generalised force"], what="RNEA(ABA(tau)) = tau")


def test_gravity_force_is_the_slope_of_the_potential_energy(laws):
    _, _, x = laws
    close(x["gravity"], x["potential slope"])


def test_jacobians_give_the_velocities(laws):
    _, inputs, x = laws
    qd, rate = inputs["qd"], x["rate without acceleration"]
    close(times(x["point_jacobian"], qd), rate["point"], what="point")
    close(times(x["com_jacobian"], qd), rate["com"], what="centre of mass")
    close(x["com_velocity"], rate["com"], what="com_velocity")
    spin = times(x["angular_jacobian"], qd)
    close(spin, x["kin"].velocity[:, PUSHED, :3], what="angular velocity")
    turning = skew(x["kin"].velocity[..., :3]) @ x["kin"].link_rot
    close(turning, rate["link_rot"], what="rate of the rotation matrices")


def test_bias_is_the_acceleration_without_joint_accelerations(laws):
    """Classical acceleration of a material point = spatial part + omega x its velocity."""
    _, inputs, x = laws
    bias, velocity = x["kin"].bias[:, PUSHED], x["kin"].velocity[:, PUSHED]
    arm = x["point"] - x["kin"].reference[:, PUSHED]
    speed = times(x["point_jacobian"], inputs["qd"])
    classical = bias[:, 3:] + np.cross(bias[:, :3], arm) + np.cross(velocity[:, :3], speed)
    close(classical, x["rate without acceleration"]["point velocity"])


def test_momentum_changes_by_the_external_forces_only(laws):
    model, inputs, x = laws
    force = inputs["force"]
    close(x["rate"]["linear momentum"], force + model.total_mass * model.gravity)
    close(x["rate"]["angular momentum"], wrench_at(x["point"], x["com"], force)[:, :3])


def test_power_of_the_forces_changes_the_energy(laws):
    _, inputs, x = laws
    close(x["rate"]["energy"], np.sum(x["generalised force"] * inputs["qd"], -1))


def test_relative_torque_is_a_force_pair(laws):
    _, _, x = laws
    close(x["pair"], x["pair by jacobians"])


@quick_jit
def rk4(model, q, qd, dt, steps):
    """Free motion for so many steps."""

    def step(_, x):
        return runge_kutta(model, *x, dt)

    return jax.lax.fori_loop(0, steps, step, (q, qd))


@quick_jit
def conserved(model, q, qd):
    kin = forward_kinematics(model, q, qd)
    energy = momentum.kinetic_energy(model, kin, qd) + momentum.potential_energy(model, kin)
    return {
        "energy": energy,
        "linear momentum": momentum.linear_momentum(model, kin),
        "angular momentum": momentum.angular_momentum(model, kin),
        "angular momentum about the origin": momentum.angular_momentum(model, kin, jnp.zeros(3)),
    }


def rod(length: float = 1.0, mass: float = 1.3) -> dict:
    """A thick rod along x, from the link's origin on."""
    I = mass * length**2 / 12
    return dict(mass=mass, com=(length / 2, 0, 0), inertia=(0.1 * I, I, 1.05 * I))


def passive_pendulum():
    """A double pendulum, upper joint a ball."""
    b = ModelBuilder()
    b.add_link("upper", "world", joints=[ball("shoulder")], **rod())
    b.add_link("lower", "upper", pos=(1, 0, 0), joints=[hinge("elbow", (0, 1, 0))], **rod())
    return b.build(), np.array([1.0, 0, 0, 0, 0.4]), np.array([0.3, -0.2, 1.0, 2.0])


def floating_chain():
    b = ModelBuilder(gravity=(0, 0, 0))
    b.add_link("trunk", "world", joints=[free("root")], **rod())
    b.add_link("arm", "trunk", pos=(1, 0, 0), joints=[ball("shoulder")], **rod(0.6, 0.5))
    b.add_link("leg", "trunk", joints=[hinge("hip", (0, 1, 0), anchor=(0, 0.1, 0))], **rod(0.8))
    q = np.array([0.2, -1, 3, 0.5, 0.5, -0.5, 0.5, 1, 0, 0, 0, 0.4])
    return b.build(), q, np.array([0.3, -0.2, 0.5, 1.0, 2.0, -1.5, 0.3, -0.7, 1.1, 2.0])


@pytest.mark.parametrize(
    "scene, kept",
    [
        (passive_pendulum, ["energy"]),
        (
            floating_chain,
            [
                "energy",
                "linear momentum",
                "angular momentum",
                "angular momentum about the origin",
            ],
        ),
    ],
)
def test_free_motion_keeps_what_it_must_to_fourth_order(scene, kept):
    """The drift is the integrator's: small, and 16 times smaller at half the step."""
    model, q, qd = scene()
    start = conserved(model, q, qd)
    coarse, fine = (
        conserved(model, *rk4(model, q, qd, 0.5 / steps, steps)) for steps in (500, 1000)
    )
    for name in kept:
        size = np.abs(start[name]).max()
        drifts = [np.abs(end[name] - start[name]).max() / size for end in (coarse, fine)]
        assert drifts[1] < RTOL, f"{name} drifts by {drifts[1]:.3g}"
        assert 12 < drifts[0] / drifts[1] < 20, f"{name}: drifts {drifts} are not of fourth order"


def test_a_rigid_body_in_flight_obeys_euler():
    """Centre of mass in free fall; I omega' + omega x I omega = 0 in the link's frame."""
    b = ModelBuilder(gravity=(0.1, 0, -9.81))
    I = np.array([0.2, 0.3, 0.4])
    b.add_link("body", "world", mass=2.0, inertia=I, joints=[free("root")])
    model = b.build()
    q = np.array([1.0, 2, 3, 0.5, -0.5, 0.5, 0.5])
    qd = np.array([1.0, 0, -2, 0.3, -4.0, 2.0])
    qdd = quick_jit(
        lambda q, qd: articulated_body(model, forward_kinematics(model, q, qd), 0 * qd)
    )(q, qd)
    omega = qd[3:]
    close(qdd[:3], model.gravity)
    close(qdd[3:], -np.cross(omega, I * omega) / I)


def test_pendulum_takes_the_period_of_the_elliptic_integral():
    """From rest at 2 rad it hangs straight down after a quarter of 4 sqrt(I / m g l) K(sin 1)."""
    model_builder = ModelBuilder()
    model_builder.add_link("rod", "world", joints=[hinge("pin", (0, 1, 0))], **rod(1.2, 0.7))
    model = model_builder.build()
    I = 0.7 * 1.2**2 * (1 / 12 + 1 / 4)
    amplitude, below = 2.0, np.pi / 2  # the rod lies along x at q = 0
    a, g = 1.0, np.cos(amplitude / 2)
    while abs(a - g) > 1e-15:  # arithmetic-geometric mean
        a, g = (a + g) / 2, np.sqrt(a * g)
    quarter = np.sqrt(I / (0.7 * 9.81 * 0.6)) * np.pi / (2 * a)
    q, qd = rk4(model, np.array([below + amplitude]), np.zeros(1), quarter / 1000, 1000)
    close(q, [below])
    close(qd**2, [2 * 0.7 * 9.81 * 0.6 * (1 - np.cos(amplitude)) / I])
