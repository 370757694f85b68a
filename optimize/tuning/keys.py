"""Random keys of a run: plain arrays, the same numbers on every machine."""

from typing import Any

import jax
import jax.numpy as jnp

KEY_KIND = "threefry2x32"  # the same numbers whatever the default generator is


def run_key(seed: Any) -> jax.Array:
    """Random key (2,) uint32 of a run."""
    return jax.random.key_data(jax.random.key(jnp.asarray(seed, jnp.uint32), impl=KEY_KIND))


def wrap_key(key: Any) -> jax.Array:
    return jax.random.wrap_key_data(jnp.asarray(key), impl=KEY_KIND)


def generation_keys(state: Any) -> tuple[jax.Array, jax.Array]:
    """Random keys for ``ask`` and for ``tell``, from a state with ``key`` and ``asked``."""
    first, second = jax.random.split(jax.random.fold_in(wrap_key(state.key), state.asked))
    return first, second


def strong(tree: Any) -> Any:
    """Tree without weak types, which would make its consumer compile twice."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), tree)
