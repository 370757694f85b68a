"""Per-step optimisation as a scheme, so that rollouts run it like time stepping.

Its command is not a torque but tasks: a function of a configuration and a velocity, see
``synthesize``. Its memory has the last torques, contact forces, and the start of the next QP.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.standing import effectors_of
from jaxsim.collision.contacts import find_contacts
from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import Model, ModelError, State
from jaxsim.model.part import Submodel, driven_part, main_part
from jaxsim.simulation.checks import check_array, describe, has_values
from jaxsim.simulation.health import Health, finite_only
from jaxsim.simulation.measures import Measure, Sample, count, largest
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.scheme import Scheme, register_scheme
from jaxsim.solvers.status import Status
from jaxsim.synthesis.checks import check_settings
from jaxsim.synthesis.config import SynthesisConfig, Units, units
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.holds import NO_HOLD, Grips, Holds, HoldsNow, check_holds
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.shares import shares
from jaxsim.synthesis.surroundings import surroundings
from jaxsim.synthesis.synthesizer import SynthesisInfo, SynthesisMemory, begin, synthesize
from jaxsim.synthesis.tasks import Tasks

WORST = ("root_residual", "cone_excess")


@register_scheme
@dataclass(frozen=True)
class PerStepOptimisation(SynthesisConfig, Scheme):
    """Per-step optimisation of one character, with the settings of ``SynthesisConfig``.

    Each member of a batch may have its own settings.

    Build it with ``PerStepOptimisation.of(model, effectors)``.
    """

    takes_tasks: ClassVar[bool] = True

    effectors: Effectors = dataclasses.field(kw_only=True)
    unit: Units = dataclasses.field(kw_only=True)
    holds: Holds | None = dataclasses.field(default=None, kw_only=True)  # that may be gripped

    @classmethod
    def of(
        cls,
        model: Model,
        effectors: Effectors,
        config: SynthesisConfig | None = None,
        holds: Holds | None = None,
    ) -> "PerStepOptimisation":
        """Build the scheme for a model and its effectors; config: None for the default settings."""
        settings = SynthesisConfig() if config is None else config
        fields = {f.name: getattr(settings, f.name) for f in dataclasses.fields(SynthesisConfig)}
        unit = units(main_part(model.topology).of(model))
        return cls(**fields, effectors=effectors, unit=unit, holds=holds)

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "PerStepOptimisation":
        """Scheme for the resized model ``grow(model)``, which may be traced: effectors, units."""
        after = grow(model)
        body = main_part(after.topology).of(after)
        return dataclasses.replace(self, effectors=effectors_of(after), unit=units(body))

    @property
    def settings_text(self) -> str:
        return f"at most {self.passes} QPs a frame of {self.iterations} iterations"

    def for_search(self) -> Self:
        """Fewer passes and iterations: ``search_passes`` and ``search_iterations``."""
        return replace(self, passes=self.search_passes, iterations=self.search_iterations)

    def check(self, model: Model) -> None:
        """Raise SynthesisError for settings out of range, ModelError for those of another model."""
        if has_values(self):
            check_settings(self)
        shape = (self.effectors.count, 3)
        check_array("config.effectors.point", self.effectors.point, shape, model.mass.dtype)
        if max(self.effectors.links) >= model.topology.n_links:
            raise ModelError("config.effectors are of another model; build them for this one")
        part = main_part(model.topology)
        if not (part.links == np.arange(len(part.links))).all():
            first = model.topology.link_names[0]
            raise ModelError(
                f"the first link is {first!r}, and moves by drives; per-step optimisation needs a"
                " model whose links begin with the character's"
            )
        if self.window > 1 and (self.holds is not None or not part.whole):
            raise ModelError(
                f"a window of {self.window} steps takes surfaces at rest and no holds; choose"
                " window = 1"
            )
        if self.holds is not None and has_values(self.holds):
            check_holds(model, self.effectors, self.holds)

    def init(self, model: Model, state: State) -> State:
        """Add the scheme's memory to a state: torques that keep its velocity, and grips.

        A gripper within reach of a hold grips it. A state that has such a memory is returned as it
        is.
        """
        if isinstance(state.solver, SynthesisMemory) and state.solver.looks_ahead == self.window:
            return state
        part, state = main_part(model.topology), along_drives(model, state)
        around, hold = surroundings(model, state.time, self.dt), None
        own, body = _own(part, state), part.of(model)
        holds = self._holds(model, state, None)
        if holds is not None:
            at = forward_kinematics(body, own.q, own.qd)
            hold = holds.in_reach(self.effectors.positions(at))
        own = begin(body, self.effectors, own, self.unit, self, around, holds, hold)
        return state.replace(solver=own.solver)

    def grip_points(self, model: Model, state: State) -> Callable[[Array], Array] | None:
        """Function from q to the points (n, 3) that grip a hold at a state [m]; None without.

        The state has values, as n depends on it.
        """
        holds, part = self._holds(model, state, None), main_part(model.topology)
        if holds is None:
            return None

        @jax.jit
        def positions(q: Array) -> Array:
            kin = forward_kinematics(part.of(model), q[part.q], state.qd[part.dofs])
            return self.effectors.positions(kin)

        grips = np.asarray(holds.in_reach(positions(state.q))) != NO_HOLD
        points = holds.grippers[grips]
        return (lambda q: positions(q)[points]) if len(points) else None

    def _holds(self, model: Model, state: State, grips: Grips | None) -> HoldsNow | None:
        """Holds at the state's time, with their grips; None without holds."""
        if self.holds is None:
            return None
        grips = self.holds.begin(state.q.dtype) if grips is None else grips
        return self.holds.at(model, state.time, self.dt, grips)

    def observe(self, model: Model, state: State) -> EffectorObservation:
        """Observation for a task-based controller, of a state that ``init`` or a step returned."""
        part = main_part(model.topology)
        own = _own(part, state)
        around = surroundings(model, state.time, self.dt)
        holds = self._holds(model, state, state.solver.grips)
        conf = configuration_at(part.of(model), self.effectors, own.q, own.qd, around, holds)
        touching = conf.near.gap <= self.touch_distance
        if holds is not None:
            at = holds.grippers
            touching = touching.at[at].set(touching[at] | (holds.grips.held != NO_HOLD))
        return EffectorObservation(
            conf=conf,
            touching=touching,
            force=state.solver.force,
            weight=self.unit.force,
            height=self.unit.shift,
            time=state.time,
            unit=self.unit,
            all_links=None if part.whole else forward_kinematics(model, state.q, state.qd),
        )

    def step(
        self,
        model: Model,
        state: State,
        obs: EffectorObservation,
        command: Callable[[Configuration, Array], Tasks],
        forces: Pushes | None = None,
    ) -> tuple[State, SynthesisInfo]:
        """Run ``synthesize`` with these settings. Raises TypeError for a command without tasks."""
        if not callable(command):
            raise TypeError(
                f"the command is {describe(command)}; per-step optimisation takes tasks, a"
                " function of a conf and a velocity, as a controller by goals gives them"
            )
        part = main_part(model.topology)
        after, info = synthesize(obs.conf, _own(part, state), command, self.unit, self, forces)
        if part.whole:
            return after, info
        none = jnp.zeros_like(state.qd)
        torque, stop = (none.at[part.dofs].set(x) for x in (info.torque, info.stop))
        q, qd = state.q.at[part.q].set(after.q), state.qd.at[part.dofs].set(after.qd)
        after = along_drives(model, after.replace(q=q, qd=qd), state, self.dt)
        return after, replace(info, torque=torque, stop=stop)

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures of physical validity: see ``SynthesisInfo``; and the largest penetration [m]."""
        of = {name: (lambda sample, name=name: getattr(sample.info, name)) for name in WORST}
        grip_speed = {"largest_grip_speed": largest(lambda sample: sample.info.grip_speed, 0.0)}
        return {
            **({} if self.holds is None else grip_speed),
            **{f"largest_{name}": largest(value, 0.0) for name, value in of.items()},
            "effector_penetration": largest(lambda sample: sample.info.penetration, 0.0),
            "largest_penetration": largest(
                lambda s: -jnp.min(find_contacts(s.model, s.obs.kin).gap, initial=0.0), 0.0
            ),
            "rolled_back": count(lambda sample: sample.info.passes > 1),
            "unsolved_frames": count(lambda sample: sample.info.status != Status.OK),
        }

    def torque(self, command: Any, info: SynthesisInfo) -> Array:
        """(nv,) joint torques of the optimisation [N m or N]."""
        return info.torque

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(ne,) link of each effector, and (ne,) the other side: -1 for the world."""
        links = np.array(self.effectors.links)
        return links, np.full_like(links, -1)

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Fields of a record: effectors that slide (ne,) bool, cost by goal, conflicts of goals.

        Costs and conflicts are those of ``shares``, as linearised at the step's beginning.
        """
        return self._kept(sample.obs.conf, sample.control, sample.info)

    def _kept(self, conf: Configuration, command: Callable, info: SynthesisInfo) -> dict:
        tasks = command(conf, jnp.zeros_like(conf.v))
        cost, against = shares(tasks, info.velocity)
        return {"sliding": info.sliding, "cost": cost, "against": against}

    def watch(
        self, health: Health, model: Model, state: State, obs: Any, after: State, info: Any
    ) -> Health:
        """Watch for the first state that is not finite; the energy is not bounded here."""
        return finite_only(health, after)


def along_drives(
    model: Model, state: State, before: State | None = None, dt: Array | float = 1.0
) -> State:
    """Move links with prescribed motion to where they are at the state's time.

    With a state ``before``, dt [s] ago, their velocities are those that lead there.
    """
    driven = driven_part(model.topology)
    if not driven.q.size:
        return state
    there, qd = driven.of(model).drive.position(state.time), state.qd
    if before is not None:
        qd = qd.at[driven.dofs].set((there - before.q[driven.q]) / dt)
    return state.replace(q=state.q.at[driven.q].set(there), qd=qd)


def _own(part: Submodel, state: State) -> State:
    """Restrict a state to the character's coordinates; the scheme's memory stays."""
    return state if part.whole else state.replace(q=state.q[part.q], qd=state.qd[part.dofs])
