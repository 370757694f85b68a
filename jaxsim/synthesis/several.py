"""Per-step optimisation of several characters at once, which may hold each other's hands.

Each character has its own optimisation; all of them are one program, ``jax.vmap`` over the
characters, and one optimisation where hands hold each other (``synthesis.clasps``). They have the
same structure, but each its own size, mass and strength. docs/results/synthesis.md has the cost of
two.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.math.safe import safe_max, safe_norm
from jaxsim.model import Model, ModelError, State
from jaxsim.model.part import Submodel, character_parts
from jaxsim.model.topology import INDEX
from jaxsim.simulation.checks import describe
from jaxsim.simulation.measures import Measure, Sample, count, largest
from jaxsim.simulation.pushes import Pushes
from jaxsim.synthesis.clasps import AXIS, Clasps, ClaspsNow
from jaxsim.synthesis.config import SynthesisConfig, units
from jaxsim.synthesis.configuration import Configuration, configuration_at
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.scheme import PerStepOptimisation, along_drives
from jaxsim.synthesis.surroundings import surroundings
from jaxsim.synthesis.synthesizer import SynthesisInfo, SynthesisMemory, begin, synthesize
from jaxsim.synthesis.tasks import TaskRows, Tasks


def member(tree: Any, k: int) -> Any:
    """Select the k-th character from a tree whose leading axes are the characters."""
    return jax.tree.map(lambda x: x[k], tree)


def stack_trees(trees: Sequence[Any]) -> Any:
    """Stack trees of the same structure along new leading axes."""
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SeveralObservation:
    """Observations of several characters, for the controllers of all."""

    members: EffectorObservation  # leading axis: the characters
    all_links: Kinematics  # of the whole model
    parts: tuple[Submodel, ...] = dataclasses.field(metadata={"static": True})

    def of(self, k: int) -> EffectorObservation:
        """Observation of the k-th character: its own, with the configurations of all."""
        company = tuple(member(self.members.conf, i) for i in range(len(self.parts)))
        return replace(member(self.members, k), company=company, me=k)

    @property
    def conf(self) -> Configuration:
        """Configurations of all characters, along leading axes."""
        return self.members.conf

    @property
    def kin(self) -> Kinematics:
        """Kinematics of all links of the model."""
        return self.all_links

    @property
    def com(self) -> Array:
        """(3,) centre of mass of the first character [m]."""
        return self.members.conf.com[0]

    @property
    def com_velocity(self) -> Array:
        """(3,) velocity of the first character's centre of mass [m/s]."""
        return member(self.members.conf, 0).com_velocity

    @property
    def contact_point(self) -> Array:
        """(nk ne, 3) positions of the effectors of all characters [m]."""
        return self.members.conf.position.reshape(-1, 3)

    @property
    def link_touching(self) -> Array:
        """(nl,) bool: the link is in contact."""
        links = np.concatenate(_effector_links(self.parts, self.members.conf.effectors))
        on = links[None, :] == np.arange(self.kin.link_pos.shape[0])[:, None]
        return (on & self.members.touching.reshape(-1)).any(axis=1)


def _effector_links(parts: Sequence[Submodel], effectors: Effectors) -> list[np.ndarray]:
    return [part.links[np.array(effectors.links, INDEX)] for part in parts]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SeveralCharacters(PerStepOptimisation):
    """Per-step optimisation of several characters. Build it with ``of_all(model, names)``.

    The characters are along a leading axis of ``effectors.point`` and ``unit``. Its command is a
    task function of each character, in their order: see ``PerStepOptimisation``. Its memory and its
    contacts are those of all characters, one after the other.
    """

    clasps: Clasps | None = dataclasses.field(default=None, kw_only=True)
    names: tuple[str, ...] = dataclasses.field(default=(), kw_only=True, metadata={"static": True})

    @classmethod
    def of_all(
        cls,
        model: Model,
        names: Sequence[str],
        config: SynthesisConfig | None = None,
        hands: Sequence[tuple[tuple[str, str], tuple[str, str]]] = (),
        reach: float | Sequence[float] = 0.06,
        strength: float | Sequence[float] = np.inf,
        points: Callable[[Model], Effectors] = effectors_of,
    ) -> "SeveralCharacters":
        """Build the scheme for the characters of a model, by name in their order.

        hands: pairs of (character, hand) that may hold each other, see ``Clasps.of``; points: the
        effectors of one character. Raises ModelError for characters of different structure, and for
        the central form and a longer horizon, which take one character.
        """
        settings = SynthesisConfig() if config is None else config
        if settings.window > 1:
            raise ModelError(
                f"a window of {settings.window} steps takes one character; choose window = 1"
            )
        if settings.form != "backward":
            raise ModelError(
                f"the {settings.form} form takes one character; choose form 'backward'"
            )
        bodies = _bodies(model, len(names))
        effectors = [points(body) for body in bodies]
        clasps = Clasps.of(effectors[0], names, hands, reach, strength) if hands else None
        fields = {f.name: getattr(settings, f.name) for f in dataclasses.fields(SynthesisConfig)}
        unit = stack_trees([units(body) for body in bodies])
        return cls(
            **fields, effectors=stack_trees(effectors), unit=unit, clasps=clasps, names=tuple(names)
        )

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "SeveralCharacters":
        """Scheme for the resized characters of ``grow(model)``, which may be traced."""
        bodies = _bodies(grow(model), len(self.names))
        points, unit = ([f(body) for body in bodies] for f in (effectors_of, units))
        return replace(self, effectors=stack_trees(points), unit=stack_trees(unit))

    def check(self, model: Model) -> None:
        """Check every character as ``PerStepOptimisation.check`` does."""
        for k, body in enumerate(_bodies(model, len(self.names))):
            self.of_one(k).check(body)

    def of_one(self, k: int) -> PerStepOptimisation:
        """Scheme of the k-th character alone, with the same settings."""
        kept = {f.name: getattr(self, f.name) for f in dataclasses.fields(PerStepOptimisation)}
        return PerStepOptimisation(
            **kept | {"effectors": member(self.effectors, k), "unit": member(self.unit, k)}
        )

    def characters(self, model: Model) -> tuple[Submodel, ...]:
        """Submodel of each character: its indices in the whole model."""
        return character_parts(model.topology)

    def init(self, model: Model, state: State) -> State:
        """Initial scheme state of every character: torques that keep its velocity.

        A state that has such a memory is returned as it is.
        """
        if isinstance(state.solver, SynthesisMemory):
            return state
        state = along_drives(model, state)
        around = surroundings(model, state.time, self.dt)
        clasps = None if self.clasps is None else ClaspsNow(self.clasps, self.clasps.begin())

        def first(body, points, q, qd, unit):
            own = state.replace(q=q, qd=qd)
            own = begin(body, points, own, unit, self, around, clasps=clasps)
            return own.solver

        bodies, q, qd = self._all(model, state)
        solver = jax.vmap(first, axis_name=AXIS)(bodies, self.effectors, q, qd, self.unit)
        return state.replace(solver=solver)

    def _all(self, model: Model, state: State) -> tuple[Model, Array, Array]:
        """Submodels, positions and velocities of the characters, along leading axes."""
        parts = self.characters(model)
        q = jnp.stack([state.q[part.q] for part in parts])
        qd = jnp.stack([state.qd[part.dofs] for part in parts])
        return stack_trees([part.of(model) for part in parts]), q, qd

    def observe(self, model: Model, state: State) -> SeveralObservation:
        """Observations for task-based controllers, of a state that ``init`` or a step returned."""
        around = surroundings(model, state.time, self.dt)

        def seen(body, points, q, qd, memory, unit):
            clasps = None if self.clasps is None else ClaspsNow(self.clasps, memory.clasps)
            conf = configuration_at(body, points, q, qd, around, None, clasps)
            held = jnp.zeros(points.count, bool) if clasps is None else clasps.hands(points.count)
            return EffectorObservation(
                conf=conf,
                touching=(conf.near.gap <= self.touch_distance) | held,
                force=memory.force,
                weight=unit.force,
                height=unit.shift,
                time=state.time,
                unit=unit,
            )

        bodies, q, qd = self._all(model, state)
        members = jax.vmap(seen, axis_name=AXIS)(
            bodies, self.effectors, q, qd, state.solver, self.unit
        )
        kin = forward_kinematics(model, state.q, state.qd)
        return SeveralObservation(members, kin, self.characters(model))

    def step(
        self,
        model: Model,
        state: State,
        obs: SeveralObservation,
        command: Sequence[Callable[[Configuration, Array], Tasks]],
        forces: Pushes | None = None,
    ) -> tuple[State, SynthesisInfo]:
        """Advance all characters by one step. Raises TypeError unless each has a task function."""
        parts = self.characters(model)
        if not isinstance(command, tuple | list) or len(command) != len(parts):
            raise TypeError(
                f"the command is {describe(command)}; several characters take tasks of each of the"
                f" {len(parts)}, as controllers by goals give them"
            )
        tasks = _same_rows(
            [f(member(obs.conf, k), jnp.zeros_like(obs.conf.v[k])) for k, f in enumerate(command)]
        )

        def step_one(conf, memory, tasks, unit, forces):
            own = state.replace(q=conf.q, qd=conf.v, solver=memory)
            after, info = synthesize(conf, own, lambda *_: tasks, unit, self, forces)
            return after.q, after.qd, after.solver, info

        pushes = None if forces is None else stack_trees([_on_part(forces, part) for part in parts])
        q, qd, solver, info = jax.vmap(step_one, axis_name=AXIS)(
            obs.conf, state.solver, tasks, self.unit, pushes
        )
        time, dofs = state.time + self.dt, np.concatenate([part.dofs for part in parts])
        all_q = state.q.at[np.concatenate([part.q for part in parts])].set(q.reshape(-1))
        all_qd = state.qd.at[dofs].set(qd.reshape(-1))
        after = state.replace(q=all_q, qd=all_qd, time=time, solver=solver)
        after = along_drives(model, after, state, self.dt)
        none = jnp.zeros_like(all_qd)
        whole = {x: none.at[dofs].set(getattr(info, x).reshape(-1)) for x in ("torque", "stop")}
        return after, self._together(info, whole)

    def _together(self, info: SynthesisInfo, whole: dict[str, Array]) -> SynthesisInfo:
        """Merge the info of all characters: the worst of scalars, concatenation of the rest."""
        worst = {"root_residual", "cone_excess", "penetration", "effort", "passes", "status"}
        worst |= {"iterations", "residual", "lost", "grip_speed"}
        fields = {}
        for f in dataclasses.fields(SynthesisInfo):
            x = getattr(info, f.name)
            if x is not None:
                fields[f.name] = jnp.max(x, axis=0) if f.name in worst else _one_axis_less(x)
        fields |= whole
        if self.clasps is not None:
            first = np.array(self.clasps.ends)[:, 0]
            fields["clasped"] = info.clasped[0]  # type: ignore[index]
            fields["clasp_force"] = info.clasp_force[first, np.arange(len(first))]  # type: ignore[index]
        return SynthesisInfo(**fields)

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures of one character, and those of hand holds: steps, largest force and speed."""
        common = super().measures(model)
        if self.clasps is None:
            return common

        def force(sample: Sample) -> Array:
            return safe_max(jnp.append(safe_norm(sample.info.clasp_force), 0.0))

        return common | {
            "clasped_steps": count(lambda sample: sample.info.clasped.any()),
            "largest_clasp_force": largest(force, 0.0),
            "largest_clasp_speed": largest(lambda sample: sample.info.grip_speed, 0.0),
        }

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Fields of a record, as of one character; costs by goal are those of the first."""
        conf = member(sample.obs.conf, 0)
        velocity = sample.info.velocity[: conf.v.shape[0]]
        info = replace(sample.info, velocity=velocity)
        return self._kept(conf, sample.control[0], info)

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(nk ne,) link of each effector, and (nk ne,) the other side: -1 for the world."""
        links = np.concatenate(_effector_links(self.characters(model), self.effectors))
        return links, np.full_like(links, -1)


def _bodies(model: Model, count: int) -> list[Model]:
    """Submodel of each character. ModelError unless ``count`` have the same structure."""
    parts = character_parts(model.topology)
    if len(parts) != count:
        raise ModelError(
            f"{count} characters are named and {len(parts)} are built like the first; several"
            " characters need the same links, joints and shapes"
        )
    return [part.of(model) for part in parts]


def _one_axis_less(x: Array) -> Array:
    return x.reshape(-1, *x.shape[2:])


def _on_part(pushes: Pushes, part: Submodel) -> Pushes:
    """Renumber the links of pushes for a submodel; a push on another link gets link -1."""
    at = part.links == pushes.link[:, None]  # (n, nl')
    own = jnp.sum(jnp.where(at, np.arange(len(part.links)), 0), axis=1)
    return replace(pushes, link=jnp.where(at.any(axis=1), own, -1))


def _same_rows(tasks: Sequence[Tasks]) -> Tasks:
    """Stack tasks along a leading axis, with zero rows where one has fewer goals than another."""
    most = {
        name: max((len(rows.r) for t in tasks if (rows := getattr(t, name)) is not None), default=0)
        for name in ("goals", "fixed")
    }
    masked = ("grip", "clasp", "apart", "effort")
    some = {n: any(getattr(t, n) is not None for t in tasks) for n in masked}

    def filled(t: Tasks) -> Tasks:
        nv, count = t.goals.J.shape[1], len(t.relax)
        no_rows = TaskRows(jnp.zeros((0, nv), t.relax.dtype), jnp.zeros(0, t.relax.dtype))
        rows: dict[str, Any] = {
            n: _padded(getattr(t, n) or no_rows, m) for n, m in most.items() if m
        }
        rows |= {"of_goal": None, "n_goals": 1}  # the step does not use them
        for name in ("grip", "apart"):
            if some[name] and getattr(t, name) is None:
                rows[name] = jnp.zeros(count, bool)
        if some["effort"] and t.effort is None:
            rows["effort"] = jnp.zeros(nv, t.relax.dtype)
        if some["clasp"] and t.clasp is None:
            sizes = [t.clasp for t in tasks if t.clasp is not None]
            rows["clasp"] = jnp.zeros_like(sizes[0])
        return replace(t, **rows)

    return stack_trees([filled(t) for t in tasks])


def _padded(rows: TaskRows, count: int) -> TaskRows:
    more = count - len(rows.r)
    return TaskRows(jnp.pad(rows.J, ((0, more), (0, 0))), jnp.pad(rows.r, (0, more)))
