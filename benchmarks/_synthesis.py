"""The scene of the synthesizer's benchmarks: the 37-DOF human under the balance controller."""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from controllers.goals.balance import balance_machine
from controllers.goals.control import Body, perceive
from controllers.goals.senses import Senses
from jaxsim import Model, articulated_human, start
from jaxsim.simulation.pushes import Pushes
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.effectors import human_effectors
from jaxsim.synthesis.synthesizer import begin, first_problem, synthesize

PUSHED = 0.1  # when all are pushed, for 0.2 s [s]


@dataclass(frozen=True)
class Scene:
    """How one character's steps are made, in JAX's precision when it is first used."""

    config: SynthesisConfig

    @cached_property
    def human(self):
        """Model, effectors, units and the state machine."""
        model = articulated_human("adult", friction=1.0)
        return model, human_effectors(model), jax.jit(units)(model), balance_machine()

    def on(self, friction: float) -> Model:
        """The human on a ground of that friction."""
        model = self.human[0]
        return model.replace(friction=jnp.full_like(model.friction, friction))

    def senses(self, model: Model, state) -> Senses:
        _, points, unit, _ = self.human
        return perceive(Body(model, points, unit), state, self.config)

    def asked(self, model: Model, carry):
        """Senses, the controller's memory, and tasks of a step."""
        (state, memory), (_, _, unit, machine) = carry, self.human
        senses = self.senses(model, state)
        memory = machine.advance(memory, senses)
        weights = machine.weights().astype(state.q.dtype)
        tasks = machine.tasks(memory, senses, weights, unit, self.config.dt)
        return senses, memory, tasks

    def step(self, model: Model, carry, pushes: Pushes):
        """The next carry (state, memory), and the step's info."""
        senses, memory, tasks = self.asked(model, carry)
        unit = self.human[2]
        after, info = synthesize(senses.view, carry[0], tasks, unit, self.config, pushes)
        return (after, memory), info

    def problem(self, model: Model, carry, pushes: Pushes):
        """The step's first QP."""
        senses, _, tasks = self.asked(model, carry)
        return first_problem(senses.view, carry[0], tasks, self.human[2], self.config, pushes)

    def begin(self):
        """A carry: standing."""
        model, points, unit, machine = self.human

        def first(state):
            state = begin(model, points, state, unit, self.config)
            return state, machine.begin(self.senses(model, state))

        return jax.jit(first)(start(model, "standing"))

    def pushes(self, force) -> Pushes:
        """On the pelvis, force (..., 3) [N]; a batch where force is one."""
        model = self.human[0]
        force = jnp.asarray(force, model.mass.dtype)[..., None, :]
        shape = force.shape[:-1]
        link = model.topology.link("pelvis")
        return Pushes(
            link=jnp.full(shape, link),
            point=jnp.broadcast_to(model.com[link], force.shape),
            force=force,
            start=jnp.full(shape, PUSHED, force.dtype),
            duration=jnp.full(shape, 0.2, force.dtype),
        )


def around(count: int, strongest: float) -> np.ndarray:
    """Forces (count, 3) [N] in all directions, of all strengths up to one."""
    rng = np.random.default_rng(0)
    angle, size = rng.uniform(0, 2 * np.pi, count), strongest * rng.uniform(0, 1, count)
    return np.stack([size * np.cos(angle), size * np.sin(angle), 0 * size], axis=1)
