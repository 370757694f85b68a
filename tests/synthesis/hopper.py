"""A small character with one leg, what it may be asked for, and its step as one program."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.effectors import Effectors, effectors
from jaxsim.model import Model, ModelBuilder, State, box, free, hinge, neutral_state, plane
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import configuration_at
from jaxsim.synthesis.synthesizer import begin, synthesize
from jaxsim.synthesis.tasks import TaskRows, Tasks, position_rows, stack_rows, velocity_rows

JOINTS = ("hip", "knee", "ankle")
LIMIT = 400.0  # greatest torque [N m]
BENT = (0.4, -0.8, 0.4)  # hip, knee, ankle; the sole is level and under the trunk [rad]
DT = 0.01  # [s]
HANDLE = 4  # the effector on the trunk; 0 to 3 are the corners of the sole


def hopper() -> Model:
    """A trunk, a thigh, a shank and a foot of 40 kg in all, over the ground."""
    b = ModelBuilder()
    b.add_link("trunk", "world", mass=25.0, inertia=(0.9, 0.8, 0.3), joints=[free("trunk")])
    b.add_shape("trunk", box((0.1, 0.1, 0.2), name="trunk"))
    for name, parent, joint, z in (
        ("thigh", "trunk", "hip", -0.2),
        ("shank", "thigh", "knee", -0.4),
    ):
        joints = [hinge(joint, (0, 1, 0), limits=(-2.0, 1.5), max_torque=LIMIT)]
        limb = dict(mass=6.0, com=(0, 0, -0.2), inertia=(0.1, 0.1, 0.02))
        b.add_link(name, parent, pos=(0, 0, z), joints=joints, **limb)
    joints = [hinge("ankle", (0, 1, 0), limits=(-1.0, 1.0), max_torque=LIMIT)]
    foot = dict(mass=3.0, com=(0.02, 0, -0.03), inertia=(0.01, 0.02, 0.02))
    b.add_link("foot", "shank", pos=(0, 0, -0.4), joints=joints, **foot)
    b.add_shape("foot", box((0.14, 0.06, 0.03), name="foot", pos=(0.02, 0, -0.03)))
    b.add_shape("world", plane(name="ground"))
    return b.build()


def hopper_effectors(model: Model) -> Effectors:
    """The corners of the sole, and a handle on top of the trunk."""
    corners = [(f"corner{x}{y}", "foot", "foot", (x, y, -1)) for x in (-1, 1) for y in (-1, 1)]
    return effectors(model, [*corners, ("handle", "handle", "trunk", (0, 0, 1))])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wish:
    """What a hopper is asked for, and by what."""

    com: Array  # (3,) where the centre of mass is to be [m]
    com_weight: Array  # ()
    rise: Array  # (3,) velocity that it is to have [m/s]
    rise_weight: Array  # ()
    joints: Array  # (3,) angles [rad]
    joint_weight: Array  # ()
    damping: Array  # ()
    torque: Array  # () weight on the change of torques
    still: Array  # ()
    grip: Array  # () bool: of the handle, which stays at ``held``
    held: Array  # (3,) [m]

    def tasks(self, conf, at_v, unit, dt) -> Tasks:
        """For ``synthesize``."""
        nv, n = conf.v.shape[0], conf.effectors.count
        eye = jnp.eye(nv, dtype=conf.v.dtype)
        dofs = np.array([conf.model.topology.dof(j) for j in JOINTS])
        at = np.array([conf.model.topology.q_start[conf.model.topology.joint(j)] for j in JOINTS])
        root = jnp.sqrt
        goals = stack_rows(
            velocity_rows(eye, jnp.zeros(nv, conf.v.dtype), root(self.damping) / unit.rate),
            velocity_rows(conf.com_jacobian, self.rise, root(self.rise_weight) / unit.com),
            position_rows(
                conf,
                conf.com - self.com,
                conf.com_jacobian,
                at_v,
                root(self.com_weight) / unit.com,
                dt,
            ),
            position_rows(
                conf, conf.q[at] - self.joints, eye[dofs], at_v, root(self.joint_weight), dt
            ),
        )
        hold = conf.jacobian[HANDLE]
        away = hold @ at_v - (conf.position[HANDLE] - self.held) / dt
        return Tasks(
            goals=goals,
            relax=jnp.zeros(n, conf.v.dtype),
            still=jnp.full(n, self.still, conf.v.dtype),
            torque=self.torque,
            fixed=TaskRows(jnp.where(self.grip, hold, 0.0), jnp.where(self.grip, away, 0.0)),
            grip=self.grip & (jnp.arange(n) == HANDLE),
        )


def wish(model: Model, state: State, **changes) -> Wish:
    """To stay as one is, with changes."""
    conf = configuration_at(model, hopper_effectors(model), state.q, state.qd)
    at = np.array([model.topology.q_start[model.topology.joint(j)] for j in JOINTS])
    same = Wish(
        com=conf.com,
        com_weight=5.0,
        rise=jnp.zeros(3),
        rise_weight=0.0,
        joints=state.q[at],
        joint_weight=5.0,
        damping=0.5,
        torque=1.0,
        still=1.0,
        grip=False,
        held=conf.position[HANDLE],
    )
    return jax.tree.map(jnp.asarray, replace(same, **changes))


def crouched(model: Model, height: float = 0.0, qd=None) -> State:
    """At rest, or moving with qd (9,), its sole ``height`` [m] over the ground."""
    state = neutral_state(model)
    q = state.q.at[7:10].set(jnp.array(BENT))
    sole = configuration_at(model, hopper_effectors(model), q, state.qd).position[:HANDLE, 2].min()
    q = q.at[2].add(height - sole)
    return state.replace(q=q, qd=state.qd if qd is None else jnp.asarray(qd, q.dtype))


def runner(config: SynthesisConfig):
    """run(model, dt, state, wishes, pushes): of each step of ``wishes`` the states before and
    after, and its info. state: a ``State``, whose memory ``begin`` makes if it has none."""

    def run(model, dt, state: State, wishes: Wish, pushes):
        unit, own = units(model), replace(config, dt=dt)
        if state.solver is None:
            state = begin(model, hopper_effectors(model), state, unit, own)

        def step(state, wanted: Wish):
            conf = configuration_at(model, hopper_effectors(model), state.q, state.qd)
            after, info = synthesize(
                conf,
                state,
                lambda conf, at_v: wanted.tasks(conf, at_v, unit, dt),
                unit,
                own,
                pushes,
            )
            return after, (state, after, info)

        return jax.lax.scan(step, state, wishes)[1]

    return run


def repeated(wanted: Wish, count: int) -> Wish:
    """The same in every step."""
    return jax.tree.map(lambda x: jnp.repeat(x[None], count, axis=0), wanted)
