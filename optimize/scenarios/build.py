"""Scenario of a parsed world: model, controller, scheme and forces as arrays."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller, Wrapped
from controllers.goals.company import Company
from controllers.goals.controller import GoalController
from controllers.goals.torques import GoalTorques
from controllers.pose.registered import Limp
from controllers.registry import Registered, Setup, controller_of
from jaxsim.characters.bearing import with_points
from jaxsim.characters.standing import effectors_of
from jaxsim.dynamics.effectors import Effectors
from jaxsim.io.toml_table import Table, WorldError
from jaxsim.io.world import World
from jaxsim.io.world_file import OF_GOALS, SCHEMES
from jaxsim.io.world_model import WorldModel, build_world
from jaxsim.model import Model
from jaxsim.model.part import character_parts
from jaxsim.simulation.events import EventDriven
from jaxsim.simulation.records import Control
from jaxsim.simulation.step import TimeStepping
from jaxsim.synthesis.checks import check_setup
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.holds import Holds
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.several import SeveralCharacters
from optimize.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from controllers.tracking.reference import Reference

DT = {"time_stepping": 0.001, "event_driven": 1 / 240}  # [s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gripping(Wrapped):
    """Controller wrapper that closes and opens grips at given times."""

    inner: Controller
    close: Array  # (ng,) [s]
    open: Array  # (ng,) [s]

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "Gripping":
        return replace(self, inner=self.inner.resized(model, grow))

    def update(self, memory, model, state, obs, dt) -> tuple[Any, Control]:
        memory, control = self.inner.update(memory, model, state, obs, dt)
        closed = (state.time >= self.close) & (state.time < self.open)
        return memory, replace(control, closed=closed)


def build(world: World, name: str, notes: tuple[str, ...] = ()) -> Scenario:
    """Build the scenario of a world.

    Raises WorldError or ModelError, naming the place, for what does not fit together.
    """
    optimised = world.scheme == "per_step_optimisation"
    if optimised:
        _check_optimised(world)
    elif world.companions or world.clasps:
        raise WorldError(
            f"{world.name}: [[companion]]: several characters move by per-step optimisation; choose"
            ' scheme = "per_step_optimisation"'
        )
    elif world.holds:
        raise WorldError(
            f"{world.name}: [[hold]]: only per-step optimisation holds on to these; give a [[grip]]"
        )
    built = build_world(replace(world, bodies=()) if optimised else world)
    setup = Setup(world, built.model, built.state, built.roles)
    registered = _controller(world, setup)
    controller = registered.controller
    if registered.points:
        built = replace(built, model=with_points(built.model, registered.points))
    if world.companions:
        controller = _company(world, setup, controller)
    if optimised and not isinstance(controller, GoalController | Company):
        raise WorldError(
            f'{world.name}: [controller]: the scheme "per_step_optimisation" takes a controller by'
            ' goals, such as name = "balance"; for torques choose scheme = "time_stepping"'
        )
    _check_priorities(world, controller)
    if not optimised:
        if isinstance(controller, GoalController):
            controller = _torques(world, registered)
        else:
            _check_no_goals(world)
    if built.model.topology.n_grips:
        times = [
            jnp.asarray(t, built.model.mass.dtype) for t in (built.grip_close, built.grip_open)
        ]
        controller = Gripping(controller, *times)
    spec = world.character
    text = world.source
    return Scenario(
        model=built.model,
        controller=controller,
        state=built.state if registered.state is None else registered.state,
        scheme=_optimisation(world, built) if optimised else _stepping(world),
        forces=built.pushes,
        seconds=world.seconds,
        name=name,
        title=world.title,
        link_kinds=built.roles,
        phases=registered.phases,
        notes=(*registered.notes, *notes, *built.notes),
        conditions={
            "scenario": name,
            "character": spec.model if spec else None,
            **(spec.options if spec else {}),
            "start": spec.start if spec else None,
            "controller": world.controller.take("name") if world.controller else spec and "pd",
            "scheme": world.scheme,
        },
        environment=world.environment,
        clip=_clip(world, setup),
        folder=world.folder,
        files={**registered.files, **({} if text is None else {"scenario.toml": text})},
    )


def _clip(world: World, setup: Setup) -> "Callable[[], Reference] | None":
    """Reader of the file of ``[environment.clip]``, called only on demand since it takes long."""
    table = world.environment
    if table is None or not table.has("clip"):
        return None
    from controllers.tracking.followed import EnvironmentClipKeys, followed_clip

    clip = Table(table.file, f"{table.where}.clip", table.values()["clip"])
    given = EnvironmentClipKeys.read(clip)
    clip.done()
    return partial(followed_clip, given.file, given, setup)


def _company(world: World, setup: Setup, first: Any) -> Company:
    """Controller of the character and its companions, each built for its own submodel."""
    members = [first]
    parts = character_parts(setup.model.topology)[1:]
    for companion, part in zip(world.companions, parts):
        table = companion.controller
        if table is None:
            raise WorldError(
                f"{world.name}: [[companion]] {companion.name!r}: needs a [companion.controller],"
                ' such as name = "balance"'
            )
        registered = controller_of(table, replace(setup, model=part.of(setup.model)))
        if registered.points:
            raise WorldError(
                f"{world.name}: [[companion]] {companion.name!r}: its goals need effectors besides"
                " feet and hands, which only the [character] may have; leave these goals out"
            )
        members.append(registered.controller)
    for name, member in zip(("the character", *(c.name for c in world.companions)), members):
        if not isinstance(member, GoalController):
            raise WorldError(
                f"{world.name}: the controller of {name} gives torques; several characters are"
                ' moved by goals, such as name = "balance"'
            )
    return Company(tuple(members), ("character", *(c.name for c in world.companions)))


def _controller(world: World, setup: Setup) -> Registered:
    table = world.controller
    if table is None:
        if world.character is None:
            return Registered(Limp())
        table = Table(world.name, "[controller]", {"name": "pd"})
    return controller_of(table, setup)


def _torques(world: World, registered: Registered) -> GoalTorques:
    """Task-based controller for a world that is simulated forward, by torques.

    Its model is that of the character and of what is fixed around it.
    """
    own = build_world(replace(world, bodies=(), driven=(), grips=(), pushes=())).model
    own = with_points(own, registered.points)
    dt = float(world.dt or DT[world.scheme])
    every = max(1, round(float(SynthesisConfig().dt) / dt))
    options = {"torque_limits": True, **_of_goals(world)}
    config = SynthesisConfig(dt=every * dt, **options)
    scheme = PerStepOptimisation.of(own, effectors_of(own), config)
    return GoalTorques(registered.controller, scheme, own, every=every)


def _of_goals(world: World) -> dict[str, Any]:
    """Options of ``[world]`` for controllers by goals, whatever the scheme."""
    return {key: value for key, value in world.settings.items() if key in OF_GOALS}


def _check_priorities(world: World, controller: Any) -> None:
    """Raise WorldError for strict priorities of several characters or over a horizon."""
    members = controller.members if isinstance(controller, Company) else (controller,)
    if not any(isinstance(one, GoalController) and one.priorities for one in members):
        return
    place = f"{world.name}: [controller], key 'priorities'"
    if world.companions:
        raise WorldError(f"{place}: strict priorities are of one character; leave them out")
    if world.settings.get("window", 1) > 1:
        raise WorldError(f"{place}: strict priorities are of single steps; give window = 1")


def _check_no_goals(world: World) -> None:
    """Raise WorldError for an option that only a controller by goals takes."""
    for key in _of_goals(world):
        raise WorldError(
            f"{world.name}: [world], key {key!r}: is of controllers by goals, such as name ="
            ' "balance"; leave it out, other controllers keep to the limits of their joints'
        )


def _check_optimised(world: World) -> None:
    """Raise WorldError for tables that per-step optimisation cannot simulate, such as grips."""
    if world.character is None:
        raise WorldError(f"{world.name}: per-step optimisation needs a [character]")
    if world.grips:
        raise WorldError(
            f"{world.name}: [[grip]]: per-step optimisation has none; choose scheme ="
            ' "time_stepping"'
        )
    for body in world.bodies:
        if body.shape.kind != "sphere" or body.throw_at is not None:
            raise WorldError(
                f"{world.name}: [[body]] {body.name!r}: in per-step optimisation bodies are spheres"
                " that fly from the start; they are seen, and touch nothing"
            )


def _stepping(world: World) -> TimeStepping | EventDriven:
    dt = world.dt or DT[world.scheme]
    options = {key: value for key, value in world.settings.items() if key not in OF_GOALS}
    return SCHEMES[world.scheme](dt=float(dt), **options)


def _optimisation(world: World, built: WorldModel) -> PerStepOptimisation:
    points = effectors_of(built.model)
    check_setup(built.model, points, built.state, None, built.pushes)
    options: dict[str, Any] = {"torque_limits": True, **world.settings}
    if world.dt is not None:
        options["dt"] = float(world.dt)
    if world.companions:
        return _several(world, built.model, SynthesisConfig(**options))
    if world.clasps:
        raise WorldError(f"{world.name}: [[clasp]]: of whose hands? give a [[companion]]")
    holds = _holds(world, built.model, points)
    return PerStepOptimisation.of(built.model, points, SynthesisConfig(**options), holds)


def _several(world: World, model: Model, config: SynthesisConfig) -> SeveralCharacters:
    """Scheme for the character and its companions."""
    if world.holds:
        raise WorldError(
            f"{world.name}: [[hold]]: several characters hold each other, and no holds yet; leave"
            " these out, or the [[companion]]"
        )
    names = ["character", *(one.name for one in world.companions)]

    def end(hand: str) -> tuple[str, str]:
        who, _, own = hand.rpartition(".")
        return who or "character", own

    return SeveralCharacters.of_all(
        model,
        names,
        config,
        [(end(clasp.hand), end(clasp.to)) for clasp in world.clasps],
        [clasp.reach for clasp in world.clasps] or 1.0,
        [clasp.strength for clasp in world.clasps] or 1.0,
    )


def _holds(world: World, model: Model, points: Effectors) -> Holds | None:
    """Holds of the world's ``[[hold]]`` tables."""
    if not world.holds:
        return None
    dtype, holds = model.mass.dtype, Holds.of(model, points, tuple(h.name for h in world.holds))
    numbers = {
        name: jnp.asarray([getattr(hold, name) for hold in world.holds], dtype)
        for name in ("reach", "strength", "lasts")
    }
    push = np.array([hold.push for hold in world.holds], float)
    if not np.linalg.norm(push, axis=1).all():
        raise WorldError(f"{world.name}: [[hold]]: push needs a length")
    unit = jnp.asarray(push / np.linalg.norm(push, axis=1)[:, None], dtype)
    slides = jnp.asarray([hold.slides for hold in world.holds])
    return replace(holds, **numbers, push=unit, slides=slides)
