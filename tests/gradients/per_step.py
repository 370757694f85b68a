"""Every function of the dynamics that a simulation step may call, in one dictionary."""

import jax.numpy as jnp
import numpy as np

from jaxsim.dynamics import jacobians, kinematics, momentum, rigid
from jaxsim.dynamics.articulated import (
    acceleration_deltas,
    articulated_body,
    articulated_inertia,
)
from jaxsim.model.state import neutral_q
from jaxsim.simulation.integrators import runge_kutta
from tests.oracles.random_trees import MIXED, Tree, random_tree

# The fields of a Model that the dynamics read.
NUMBERS = (
    "gravity",
    "mass",
    "com",
    "inertia",
    "joint_pos",
    "joint_quat",
    "joint_axis",
    "joint_anchor",
    "armature",
)


def per_step(model, q, qd, tau) -> dict:
    """Results by the name of the function; ``tau`` also serves as an acceleration."""
    kin = kinematics.forward_kinematics(model, q, qd)
    last, point = model.topology.n_links - 2, kin.com[0]
    carried = jnp.asarray(model.topology.link_dofs[last], q.dtype)
    return {
        "forward_kinematics": [kin.link_pos, kin.link_rot, kin.com, kin.velocity, kin.bias],
        "integrate": kinematics.integrate(model, q, qd, 0.1),
        "point_velocity": kinematics.point_velocity(kin, last, point),
        "motion_jacobian": jacobians.motion_jacobian(model, kin, point),
        "point_jacobian": jacobians.point_jacobian(model, kin, last, point),
        "angular_jacobian": jacobians.angular_jacobian(model, kin, last),
        "relative_torque": jacobians.relative_torque(model, kin, carried, point, model.gravity),
        "center_of_mass": jacobians.center_of_mass(model, kin),
        "com_jacobian": jacobians.com_jacobian(model, kin),
        "com_velocity": jacobians.com_velocity(model, kin),
        "linear_momentum": momentum.linear_momentum(model, kin),
        "angular_momentum": momentum.angular_momentum(model, kin),
        "angular_momentum about a point": momentum.angular_momentum(model, kin, model.gravity),
        "kinetic_energy": momentum.kinetic_energy(model, kin, qd),
        "potential_energy": momentum.potential_energy(model, kin),
        "link_inertias": rigid.link_inertias(model, kin),
        "link_forces": rigid.link_forces(model, kin, kin.bias),
        "mass_matrix": rigid.mass_matrix(model, kin),
        "bias_force": rigid.bias_force(model, kin),
        "gravity_force": rigid.gravity_force(model, kin),
        "inverse_dynamics": rigid.inverse_dynamics(model, kin, tau),
        "articulated_body": articulated_body(model, kin, tau),
        "acceleration_deltas": acceleration_deltas(
            model.topology, articulated_inertia(model, kin), kin.bias, tau
        ),
        "runge_kutta": runge_kutta(model, q, qd, 0.1, lambda q, qd, kin: tau),
    }


def mixed_tree(seed: int = 11) -> Tree:
    """Seven links with every kind of joint."""
    return random_tree(MIXED, seed)


def generic_inputs(tree: Tree, seed: int = 12) -> dict:
    """A random state and torque, and the model's numbers, by name."""
    rng = np.random.default_rng(seed)
    q, qd = tree.random_state(rng)
    state = {"q": q[tree.q_index], "qd": qd[tree.v_index], "tau": rng.normal(size=len(qd))}
    return {**state, **{name: np.asarray(getattr(tree.model, name)) for name in NUMBERS}}


def special_inputs(tree: Tree) -> dict:
    """At rest in the zero pose, all offsets zero, all frames aligned: lengths and angles vanish."""
    inputs = generic_inputs(tree)
    for name in ("qd", "tau", "com", "joint_pos", "joint_anchor"):
        inputs[name] = np.zeros_like(inputs[name])
    inputs["q"] = neutral_q(tree.model)
    inputs["joint_quat"] = np.broadcast_to(np.eye(4)[0], inputs["joint_quat"].shape)
    return inputs


def evaluate(model, inputs: dict) -> dict:
    """``per_step`` of the model with the numbers of ``inputs``."""
    numbers = {name: inputs[name] for name in NUMBERS}
    return per_step(model.replace(**numbers), inputs["q"], inputs["qd"], inputs["tau"])
