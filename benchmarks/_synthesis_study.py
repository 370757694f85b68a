"""Backward against central differences: accuracy by the time step, and what a step costs.

The 37-DOF human is thrown, spinning, and keeps its joint torques at zero for 0.2 s: a motion that
does not depend on the step by itself, as that of a controller does. Reference: the central form
with a quarter of the smallest step.
"""

import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import table
from jaxsim import State, articulated_human, posed
from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.synthesis.config import FORMS, SynthesisConfig, units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.motor_torques import MotorMemory
from jaxsim.synthesis.synthesizer import SynthesisMemory, no_start, synthesize
from jaxsim.synthesis.tasks import plain_tasks

SECONDS = 0.2
STEPS = (0.02, 0.01, 0.005, 0.0025)  # [s]
POSE = {"kneeFlexion": 40, "hipFlexion": 40, "elbowFlexion": 50, "shoulderAbduction": 40}
LIMP = 1e8  # weight that keeps the torques


def study(quick: bool) -> str:
    """The table, in Markdown."""
    model = articulated_human("adult")
    # no limits: of an impact at one the two forms differ by its step
    far = jnp.full_like(model.joint_lower, 100.0)
    model = model.replace(joint_lower=-far, joint_upper=far)
    points, unit = effectors_of(model), jax.jit(units)(model)
    state = posed(model, POSE)
    q = state.q.at[2].set(3.0)
    spin = 0.3 * np.random.default_rng(0).normal(size=model.topology.nv)
    spin[:6] = [1.0, 0.5, 1.0, 2.0, 4.0, 1.0]
    v = jnp.asarray(spin)

    def thrown(form):
        config = SynthesisConfig(form=form)

        def run(dt, count):
            kin = forward_kinematics(model, q, v)
            fall = articulated_body(model, kin, 0 * v)
            before = v - fall * dt / 2 if form == "central" else v  # where v belongs
            none = jnp.zeros((points.count, 3))
            zero = jnp.zeros(())
            last = no_start(model, points, v.dtype, config)
            motors = MotorMemory.begin(len(v), points.count, zero)
            memory = SynthesisMemory(motors, 0 * v, none, last)
            first = State(q, before, zero, solver=memory)

            def step(_, carry):
                state, residual = carry
                own = SynthesisConfig(dt=dt, form=form, sequence=config.sequence)
                conf = configuration_at(model, points, state.q, state.qd)

                def tasks(conf, at_v):
                    return replace(plain_tasks(conf, 0.0), torque=jnp.asarray(LIMP))

                state, info = synthesize(conf, state, tasks, unit, own)
                return state, jnp.maximum(residual, info.root_residual)

            state, residual = jax.lax.fori_loop(0, count, step, (first, zero))
            return configuration_at(model, points, state.q, state.qd).position, residual

        return jax.jit(run)

    runs = {form: thrown(form) for form in FORMS}
    sizes = STEPS[1:2] if quick else STEPS
    fine = min(sizes) / (2 if quick else 4)
    exact, _ = runs["central"](fine, round(SECONDS / fine))
    rows = []
    for dt in sizes:
        cells = []
        for form in FORMS:
            count = round(SECONDS / dt)
            runs[form](dt, 1)
            begun = time.perf_counter()
            place, residual = jax.block_until_ready(runs[form](dt, count))
            cost = 1e3 * (time.perf_counter() - begun) / count
            error = 1e3 * np.linalg.norm(place - exact, axis=1).max()
            cells += [f"{error:.3g}", f"{residual:.1e}", f"{cost:.1f}"]
        rows.append([f"{1e3 * dt:g}", *cells])
    names = ["error [mm]", "root [N]", "step [ms]"]
    return table(["dt [ms]", *(f"{form}: {name}" for form in FORMS for name in names)], rows)
