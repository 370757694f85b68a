"""The scenes of the synthesizer's benchmarks: the 37-DOF human under the balance controller, one
who climbs, and two who hold hands."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from controllers.goals.balance import balance_machine
from controllers.goals.controller import GoalController
from jaxsim import Model, articulated_human, start
from jaxsim.characters.standing import effectors_of
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.rollout import advance, begin
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.synthesizer import first_problem
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario

PUSHED = 0.1  # when all are pushed, for 0.2 s [s]


@dataclass(frozen=True)
class Scene:
    """How one character's steps are made, in JAX's precision when it is first used."""

    config: SynthesisConfig
    characters: ClassVar[int] = 1
    pushed: ClassVar[str] = "pelvis"
    strongest: ClassVar[float] = 150.0  # push [N]

    @cached_property
    def human(self):
        """Model, scheme and controller."""
        model = articulated_human("adult", friction=1.0)
        scheme = PerStepOptimisation.of(model, effectors_of(model), self.config)
        return model, scheme, GoalController.of(balance_machine(), model)

    def on(self, friction: float) -> Model:
        """The human on a ground of that friction."""
        model = self.human[0]
        return model.replace(friction=jnp.full_like(model.friction, friction))

    def step(self, model: Model, carry, pushes: Pushes):
        """The next carry (state, memory), and the step's info."""
        _, scheme, controller = self.human
        after, sample = advance(model, controller, scheme, carry[0], carry[1], pushes)
        return (after, sample.memory), sample.info

    def problem(self, model: Model, carry, pushes: Pushes):
        """The step's first QP."""
        (state, memory), (_, scheme, controller) = carry, self.human
        obs = scheme.observe(model, state)
        _, tasks = controller.update(memory, model, state, obs, jnp.asarray(scheme.dt))
        return first_problem(obs.conf, state, tasks, scheme.unit, scheme, pushes)

    def begin(self):
        """A carry: standing."""
        model, scheme, controller = self.human
        return begin(model, controller, scheme, start(model, "standing"))

    def pushes(self, force) -> Pushes:
        """On a pelvis, force (..., 3) [N]; a batch where force is one."""
        model = self.human[0]
        force = jnp.asarray(force, model.mass.dtype)[..., None, :]
        shape = force.shape[:-1]
        link = model.topology.link(self.pushed)
        return Pushes(
            link=jnp.full(shape, link),
            point=jnp.broadcast_to(model.com[link], force.shape),
            force=force,
            start=jnp.full(shape, PUSHED, force.dtype),
            duration=jnp.full(shape, 0.2, force.dtype),
            direction=jnp.zeros(shape, force.dtype),
        )


@dataclass(frozen=True)
class Shipped(Scene):
    """The same of a shipped scenario."""

    name: ClassVar[str]

    @cached_property
    def made(self) -> Scenario:
        """With these settings."""
        return scenario(self.name, {"world.torque_limits": self.config.torque_limits})

    @cached_property
    def human(self):
        """Model, scheme and controller."""
        return self.made.model, self.made.scheme, self.made.controller

    def begin(self):
        """A carry: as it begins."""
        model, scheme, controller = self.human
        return begin(model, controller, scheme, self.made.state)


@dataclass(frozen=True)
class Climber(Shipped):
    """Of one who climbs a wall, on the first holds, and is not pushed."""

    name: ClassVar[str] = "climb"
    strongest: ClassVar[float] = 0.0


@dataclass(frozen=True)
class Pair(Shipped):
    """Of an adult and a child, who is pushed and takes the adult's hand."""

    name: ClassVar[str] = "holding_hands"
    characters: ClassVar[int] = 2
    pushed: ClassVar[str] = "child.pelvis"


SCENES = {"balance": Scene, "climb": Climber, "holding_hands": Pair}


def around(count: int, strongest: float) -> np.ndarray:
    """Forces (count, 3) [N] in all directions, of all strengths up to one."""
    rng = np.random.default_rng(0)
    angle, size = rng.uniform(0, 2 * np.pi, count), strongest * rng.uniform(0, 1, count)
    return np.stack([size * np.cos(angle), size * np.sin(angle), 0 * size], axis=1)
