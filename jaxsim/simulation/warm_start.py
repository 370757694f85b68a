"""Warm start: impulses of the last step, from which the solver of the next one starts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.collision.nearest import Chosen
from jaxsim.constraints.rows import RowLayout, row_layout
from jaxsim.model.errors import ModelError
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.model.topology import Topology
from jaxsim.simulation.checks import check_array, describe


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WarmStart:
    """Memory of time stepping between steps."""

    impulse: Array  # (n_rows,) last impulses of the constraint rows [N s]
    rest: Array | None = None  # (nq,) rounding remainder of q in float32 [m, rad]; else None


def with_warm_start(model: Model, state: State) -> State:
    """Add a warm start of zeros to a state, unless it has one, which is checked."""
    if isinstance(state.solver, WarmStart):
        check_warm_start(model, state)
        return state
    rows = row_layout(model.topology).n_rows
    dtype = jnp.result_type(model.mass)
    rest = jnp.zeros(model.topology.nq, dtype) if dtype == jnp.float32 else None
    return state.replace(solver=WarmStart(jnp.zeros(rows, dtype), rest))


def rest_of(state: State) -> Array | None:
    """(nq,) rounding remainder of a state's q; None where it has no such memory."""
    return state.solver.rest if isinstance(state.solver, WarmStart) else None


def check_warm_start(model: Model, state: State) -> None:
    """Raise ModelError unless the state has the impulses of this model's rows."""
    if not isinstance(state.solver, WarmStart):
        raise ModelError(
            f"state.solver is {describe(state.solver)}; begin with config.init(model, state),"
            " which makes what a step starts from, and go on with the state that step returns"
        )
    shape = (row_layout(model.topology).n_rows,)
    try:
        check_array(
            "state.solver.impulse",
            state.solver.impulse,
            shape,
            jnp.result_type(model.mass),
            carried=True,
        )
        if state.solver.rest is not None:
            check_array("state.solver.rest", state.solver.rest, (model.topology.nq,))
    except ModelError as error:
        raise ModelError(
            f"{error}; the state is of another model, begin with config.init(model, state) from"
            " one that has solver=None"
        ) from None


def warm_start(top: Topology, layout: RowLayout, impulse: Array, chosen: Chosen | None):
    """(n,) last impulses of contacts, limits and grips, with the padding of the blocks."""
    full = row_layout(top)
    n = full.n_contact_rows
    of_contact = impulse[:n]
    if chosen is not None:
        kept = of_contact[: full.contacts * full.contact_rows].reshape(-1, full.contact_rows)
        kept = chosen.gather(kept).reshape(-1)
        of_contact = jnp.pad(kept, (0, layout.n_contact_rows - kept.size))
    return jnp.concatenate([of_contact, impulse[n:]])
