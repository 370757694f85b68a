"""Checks of the arguments of a simulation before it runs.

Shapes and dtypes are checked, also of arrays that ``jit`` and ``vmap`` trace; values only where
they are known. A check runs when a function is traced, so that it costs a compiled step nothing.
An argument that does not fit the model is a ModelError, a number out of its range a ValueError, a
value of another type a TypeError; each names the field, the expected and the actual value, and the
remedy.
"""

import dataclasses
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxsim.collision.slots import contact_slots
from jaxsim.model.errors import ModelError
from jaxsim.model.model import Model
from jaxsim.model.state import State, check_state
from jaxsim.ranges import FLOAT32, RANGES, within
from jaxsim.simulation.pushes import Pushes

NUMBERS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)


def has_values(*trees: Any) -> bool:
    """True if all numbers of the trees have values, none being traced."""
    return not any(isinstance(x, Tracer) for x in jax.tree.leaves(trees))


def check_kind(name: str, value: Any, *kinds: type, how: str = "") -> None:
    """Raise TypeError unless the value has one of the types; how: where to get such a value."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} is {describe(value)}; expected {with_article(wanted)}{how}")


def check_array(
    name: str, value: Any, shape: tuple[int, ...], dtype: Any = None, carried: bool = False
) -> None:
    """Raise ModelError unless an array has this shape and may be mixed with a float dtype.

    dtype: bool or int for just these; carried: the array must have the dtype itself, not one that
    is promoted to it. Works on tracers.
    """
    if not isinstance(value, NUMBERS):
        raise ModelError(f"{name} is {describe(value)}; expected an array of shape {shape}")
    actual_shape = np.shape(value)
    if actual_shape != shape:
        raise ModelError(
            f"{name} has shape {actual_shape}, expected {shape}{_batch_hint(actual_shape, shape)}"
        )
    if dtype is None or getattr(value, "dtype", None) == dtype:
        return
    actual = jnp.result_type(value) if is_number(value) else np.asarray(value).dtype
    if dtype in (bool, int):
        expected = jnp.bool_ if dtype is bool else jnp.integer
        if not jnp.issubdtype(actual, expected):
            raise ModelError(f"{name} has dtype {actual}, expected {dtype.__name__}")
        return
    weak = isinstance(value, float) or getattr(value, "weak_type", False)
    fits = is_number(value) and jnp.result_type(value, dtype) == dtype
    if not fits or (carried and actual != dtype and not weak):
        raise ModelError(
            f"{name} has dtype {actual}, expected {np.dtype(dtype).name} as the model's arrays"
            " have: build both under the same jax_enable_x64, or convert one with astype"
        )


def check_model(model: Model, values: bool = False) -> None:
    """Raise ModelError where an array of the model does not have its topology's size.

    values: also where a number is NaN or a mass is not positive, of arrays that are known.
    """
    check_kind("model", model, Model, how=", as ModelBuilder.build() gives it")
    top, dtype = model.topology, jnp.result_type(model.mass)
    nl, nj, nv, ns = top.n_links, top.n_joints, top.nv, len(top.shape_kinds)
    shapes = {
        "gravity": (3,),
        "mass": (nl,),
        "com": (nl, 3),
        "inertia": (nl, 3, 3),
        "joint_pos": (nj, 3),
        "joint_quat": (nj, 4),
        "joint_axis": (nj, 3),
        "joint_anchor": (nj, 3),
        "joint_lower": (nj,),
        "joint_upper": (nj,),
        **dict.fromkeys(("damping", "armature", "gain_p", "gain_d", "torque_limit"), (nv,)),
        "shape_pos": (ns, 3),
        "shape_quat": (ns, 4),
        "shape_size": (ns, 3),
        "friction": (ns,),
        "restitution": (ns,),
        "grip_point": (top.n_grips, 3),
        "grip_other_point": (top.n_grips, 3),
        "grip_strength": (top.n_grips,),
    }
    for name, shape in shapes.items():
        check_array(f"model.{name}", getattr(model, name), shape, dtype)
    for field in dataclasses.fields(model.drive):
        value = getattr(model.drive, field.name)
        check_array(f"model.drive.{field.name}", value, (top.driven_dofs.size,), dtype)
    for k, grid in enumerate(model.heights):
        check_array(f"model.heights[{k}]", grid, np.shape(grid)[-2:], dtype)
    if values:
        _check_model_values(model, (*shapes, "drive", "heights"))


def _check_model_values(model: Model, names: tuple[str, ...]) -> None:
    """Raise ModelError for known numbers of a model that are NaN, and for unphysical inertias."""
    for name in names:
        for path, leaf in jax.tree_util.tree_flatten_with_path(getattr(model, name))[0]:
            wrong = np.isnan(np.asarray(leaf)) if has_values(leaf) else np.zeros((), bool)
            if wrong.any():
                where = f"model.{name}{jax.tree_util.keystr(path)}"
                raise ModelError(f"{where}{np.argwhere(wrong)[0].tolist()} is nan; give numbers")
    if has_values(model.mass):
        for link, mass in zip(model.topology.link_names, np.asarray(model.mass).tolist()):
            try:
                within("mass", mass, called=f"model.mass of the link {link!r}")
            except ValueError as error:
                raise ModelError(str(error)) from None
    if has_values(model.inertia) and len(model.topology.link_names):
        moments = np.linalg.eigvalsh(np.asarray(model.inertia, float))
        wrong = (moments[:, 0] < -FLOAT32 * moments[:, 2]) | (moments[:, 2] <= 0)
        for k in np.flatnonzero(wrong):
            raise ModelError(
                f"model.inertia of the link {model.topology.link_names[k]!r} has the principal"
                f" moments {moments[k].tolist()} kg m^2; all have to be positive"
            )


def check_precision(model: Model) -> None:
    """Raise ModelError where ``jax_enable_x64`` was changed after the model was built."""
    built, now = jnp.result_type(model.mass), jnp.zeros(()).dtype
    if built != now:
        raise ModelError(
            f"the model's arrays are {built}, and jax_enable_x64 makes those of now {now}: build"
            " the model and the state under the same jax_enable_x64 as the rollout"
        )


def check_state_fits(model: Model, state: State, values: bool = False) -> None:
    """Raise ModelError unless this is a single state of this model.

    A scheme checks its own memory in it. values: also unless known values are finite and
    quaternions have unit length.
    """
    check_kind("state", state, State, how=", as neutral_state(model) or a start gives it")
    top, dtype = model.topology, jnp.result_type(model.mass)
    for name, shape in {"q": (top.nq,), "qd": (top.nv,), "time": ()}.items():
        try:
            check_array(f"state.{name}", getattr(state, name), shape, dtype, carried=True)
        except ModelError as error:
            raise ModelError(f"{error}{_remedy(getattr(state, name), shape)}") from None
    if state.broken is not None:
        check_array("state.broken", state.broken, (top.n_grips,), bool)
    if values and has_values(state.q, state.qd):
        check_state(model, state)
    if values and has_values(state.time) and not np.isfinite(np.asarray(state.time)):
        raise ModelError(f"state.time is {state.time}; give a time [s], such as 0")


def _remedy(value: Any, shape: tuple[int, ...]) -> str:
    """Remedy for a field of a state that has another size and is no batch; else empty."""
    given = np.shape(value)
    if given == shape or len(given) > len(shape):
        return ""
    return "; the state is of another model, build it for this very one"


def check_control(model: Model, control: Any) -> None:
    """Raise ModelError unless forces, damping, grips and motion have the model's sizes."""
    top, dtype = model.topology, jnp.result_type(model.mass)
    check_array("control.torque", control.torque, (top.nv,), dtype)
    check_array("control.damping", control.damping, (top.nv,), dtype)
    if control.closed is not None:
        check_array("control.closed", control.closed, (top.n_grips,), bool)
    if control.motion is not None:
        check_array("control.motion.acceleration", control.motion.acceleration, (top.nv,), dtype)
        check_array("control.motion.on", control.motion.on, (top.nv,), bool)
    if control.external is not None:
        check_array("control.external", control.external, (top.n_links, 6), dtype)
    if control.friction is not None:
        check_array("control.friction", control.friction, (top.n_links,), dtype)


def check_observation(model: Model, obs: Any) -> None:
    """Raise ModelError unless the observation has the sizes of a single state of this model."""
    top = model.topology
    check_array("obs.kin.link_pos", obs.kin.link_pos, (top.n_links, 3))
    check_array("obs.contacts.gap", obs.contacts.gap, (contact_slots(top).count,))


def check_pushes(model: Model, pushes: Pushes | None, values: bool = False) -> None:
    """Raise ModelError unless pushes are arrays of one length, on links of the model."""
    if pushes is None:
        return
    check_kind("pushes", pushes, Pushes, how=", as push(...) or pushes_together(...) gives it")
    dtype, count = jnp.result_type(model.mass), np.shape(pushes.start)[-1:]
    for name in ("start", "duration", "direction"):
        check_array(f"pushes.{name}", getattr(pushes, name), count, dtype)
    check_array("pushes.point", pushes.point, (*count, 3), dtype)
    check_array("pushes.force", pushes.force, (*count, 3), dtype)
    check_array("pushes.link", pushes.link, count, int)
    if not (values and has_values(pushes)):
        return
    links, names = np.asarray(pushes.link), model.topology.link_names
    for k in np.flatnonzero((links < 0) | (links >= len(names))):
        raise ModelError(
            f"pushes.link[{k}] is {links[k]}; the model has links 0 to {len(names) - 1}"
        )
    for name in ("point", "force", "start", "duration", "direction"):
        wrong = np.isnan(np.asarray(getattr(pushes, name)))
        if wrong.any():
            raise ModelError(f"pushes.{name}{np.argwhere(wrong)[0].tolist()} is nan")


def check_config(model: Model, config: Any, *kinds: type) -> None:
    """Raise ValueError or TypeError for an invalid number in a step's config.

    Each is one number, traced or not; those that are known are in the range of their name
    (``jaxsim.ranges``), and none is NaN.
    """
    check_kind("config", config, *kinds)
    for field in dataclasses.fields(config):
        name, value = f"config.{field.name}", getattr(config, field.name)
        if field.metadata.get("static"):
            if field.type is int:
                whole_number(name, value, 0)
            continue
        check_array(name, value, (), jnp.result_type(model.mass))
        if not has_values(value):
            continue
        number = np.asarray(value).item()
        if field.name in RANGES:
            within(field.name, number, called=name)
        elif np.isnan(number):
            raise ValueError(f"{name} is nan; give a number")


def check_scheme(model: Model, scheme: Any) -> None:
    """Raise TypeError unless it is a scheme, and whatever its own ``check`` raises."""
    for method in ("init", "observe", "step", "watch", "check"):
        if isinstance(scheme, type) or not callable(getattr(scheme, method, None)):
            raise TypeError(
                f"config is {describe(scheme)}; expected a scheme, as TimeStepping(dt=0.001) or"
                " EventDriven() is one"
            )
    scheme.check(model)


def check_controller(model: Model, controller: Any) -> None:
    """Raise TypeError unless it is a pytree with ``init`` and ``update``; then run its ``check``.

    A controller may offer ``check(model)``, which raises ModelError where its targets or gains do
    not fit.
    """
    if isinstance(controller, type):
        raise TypeError(f"controller is the class {controller.__name__}; give one that is made")
    for method in ("init", "update"):
        if not callable(getattr(controller, method, None)):
            raise TypeError(
                f"controller is {describe(controller)}, which has no method {method!r}; a"
                " controller has init(model, state, obs) and update(memory, model, state, obs,"
                " dt), see controllers.controller"
            )
    for path, leaf in jax.tree_util.tree_flatten_with_path(controller)[0]:
        if leaf is controller:
            raise TypeError(
                f"controller is {describe(controller)}, which is no pytree, so that its numbers"
                " could be neither batched nor tuned; put @jax.tree_util.register_dataclass and"
                " @dataclass(frozen=True) before its class, or, where it has no numbers,"
                " @jax.tree_util.register_static"
            )
        if not is_number(leaf):
            raise TypeError(
                f"controller{jax.tree_util.keystr(path)} is {describe(leaf)}; expected numbers."
                ' What is none is static: dataclasses.field(metadata={"static": True})'
            )
    check = getattr(controller, "check", None)
    if callable(check):
        check(model)


def whole_number(name: str, value: Any, least: int) -> int:
    """Convert a value to int.

    Raises TypeError if it is no integer or traced, ValueError below ``least``.
    """
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} is traced; it decides the length of a loop and has to be known: name it in"
            " jax.jit(..., static_argnames=...), or close over it"
        )
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give a whole number") from None
    if number < least:
        raise ValueError(f"{name} is {number}; give {least} or more")
    return number


def is_number(value: Any) -> bool:
    """True for an array or number that JAX computes with."""
    if not isinstance(value, NUMBERS):
        return False
    dtype = getattr(value, "dtype", np.dtype(float))
    return jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_)


def describe(value: Any) -> str:
    """Describe a value in a message: a Python number as it is, an array by its shape."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, NUMBERS):
        return f"an array of shape {np.shape(value)}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _batch_hint(given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Hint at the commonest mistake, a batch in place of a single value; else empty."""
    extra = len(given) - len(shape)
    if extra <= 0 or given[extra:] != shape:
        return ""
    return (
        f": a batch of {given[:extra]}? One call simulates one character; for a batch use jax.vmap,"
        " as in jax.vmap(lambda state: rollout(model, controller, state, config, steps))(states)"
    )
