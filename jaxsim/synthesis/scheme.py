"""Per-step optimisation as a scheme, so that rollouts run it like time stepping.

Its command is not a torque but tasks: what ``synthesize`` takes, a function of a conf and a
velocity. What it remembers are the last torques, contact forces, and the start of the next QP.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.standing import effectors_of
from jaxsim.collision.contacts import find_contacts
from jaxsim.dynamics.effectors import Effectors
from jaxsim.model import Model, ModelError, State
from jaxsim.simulation.checks import check_array, described, known
from jaxsim.simulation.health import Health, finite_only
from jaxsim.simulation.measures import Measure, Sample, count, largest
from jaxsim.simulation.pushes import Pushes
from jaxsim.solvers.status import Status
from jaxsim.synthesis.checks import check_settings
from jaxsim.synthesis.config import SynthesisConfig, Units, units
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.synthesizer import SynthesisInfo, SynthesisMemory, begin, synthesize
from jaxsim.synthesis.tasks import Tasks

WORST = ("root_residual", "cone_excess")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PerStepOptimisation(SynthesisConfig):
    """The settings of ``SynthesisConfig`` for one body; of a batch each may have its own.

    Build it with ``PerStepOptimisation.of(model, effectors)``.
    """

    effectors: Effectors = dataclasses.field(kw_only=True)
    unit: Units = dataclasses.field(kw_only=True)

    @classmethod
    def of(
        cls, model: Model, effectors: Effectors, config: SynthesisConfig | None = None
    ) -> "PerStepOptimisation":
        """For a model whose effectors may bear on its surroundings; config: default settings."""
        given = SynthesisConfig() if config is None else config
        fields = {f.name: getattr(given, f.name) for f in dataclasses.fields(SynthesisConfig)}
        return cls(**fields, effectors=effectors, unit=units(model))

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "PerStepOptimisation":
        """For the body that ``grow`` makes of the model, which may be traced: effectors, units."""
        after = grow(model)
        return dataclasses.replace(self, effectors=effectors_of(after), unit=units(after))

    @property
    def tells_residual(self) -> bool:
        """No: its information has residuals of another kind."""
        return False

    def check(self, model: Model) -> None:
        """Raise SynthesisError for settings out of their range, ModelError for another model's."""
        if known(self):
            check_settings(self)
        shape = (self.effectors.count, 3)
        check_array("config.effectors.point", self.effectors.point, shape, model.mass.dtype)
        if max(self.effectors.links) >= model.topology.n_links:
            raise ModelError("config.effectors are of another model; build them for this one")

    def init(self, model: Model, state: State) -> State:
        """The state with the torques that keep its velocity; its own, where it has these."""
        if isinstance(state.solver, SynthesisMemory):
            return state
        return begin(model, self.effectors, state, self.unit, self)

    def observe(self, model: Model, state: State) -> EffectorObservation:
        """What a controller by goals sees; of a state that ``init`` or a step gave."""
        conf = configuration_at(model, self.effectors, state.q, state.qd)
        return EffectorObservation(
            conf=conf,
            touching=conf.near.gap <= self.touch_distance,
            force=state.solver.force,
            weight=self.unit.force,
            height=self.unit.shift,
            time=state.time,
            unit=self.unit,
        )

    def step(
        self,
        model: Model,
        state: State,
        obs: EffectorObservation,
        command: Callable[[Configuration, Array], Tasks],
        forces: Pushes | None = None,
    ) -> tuple[State, SynthesisInfo]:
        """``synthesize`` with these settings. Raises TypeError for a command that is no tasks."""
        if not callable(command):
            raise TypeError(
                f"the command is {described(command)}; per-step optimisation takes tasks, a"
                " function of a conf and a velocity, as a controller by goals gives them"
            )
        return synthesize(obs.conf, state, command, self.unit, self, forces)

    def measures(self, model: Model) -> dict[str, Measure]:
        """How physical the steps were: see ``SynthesisInfo``; and how deep any shape was [m]."""
        of = {name: (lambda sample, name=name: getattr(sample.info, name)) for name in WORST}
        return {
            **{f"largest_{name}": largest(value, 0.0) for name, value in of.items()},
            "effector_penetration": largest(lambda sample: sample.info.penetration, 0.0),
            "largest_penetration": largest(
                lambda s: -jnp.min(find_contacts(s.model, s.obs.kin).gap, initial=0.0), 0.0
            ),
            "rolled_back": count(lambda sample: sample.info.passes > 1),
            "unsolved_frames": count(lambda sample: sample.info.status != Status.OK),
        }

    def torque(self, command: Any, info: SynthesisInfo) -> Array:
        """(nv,) what the optimisation gave [N m or N]."""
        return info.torque

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(ne,), (ne,) of each effector, and -1 for the world."""
        links = np.array(self.effectors.links)
        return links, np.full_like(links, -1)

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Which effectors slide, (ne,) bool."""
        return {"sliding": sample.info.sliding}

    def watch(
        self, health: Health, model: Model, state: State, obs: Any, after: State, info: Any
    ) -> Health:
        """The first state that is not finite; energy is the optimisation's to spend."""
        return finite_only(health, after)
