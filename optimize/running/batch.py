"""Map a function of one member over a batch: in chunks of fixed size, on all devices.

Results do not depend on the number of devices or on the neighbours of a member: every member is
computed in a vmap of the same width. Members that pad the last chunk repeat the first one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxsim.compilation import notice_if_long
from jaxsim.threads import HANGS

CHUNK = 10
SUSPICIOUS = 120.0  # a batch that takes longer may never end [s]


def batched(function: Callable[..., Any], chunk: int = CHUNK, devices=None) -> Callable[..., Any]:
    """Turn ``function(member, shared)`` into ``run(members, shared)`` with a leading batch axis.

    Compiles once for each number of chunks; new values, of any batch that fits, reuse it.
    """
    mesh = Mesh(np.array(devices if devices is not None else jax.devices()), ("batch",))
    spec = PartitionSpec("batch")

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(spec, PartitionSpec()),
        out_specs=spec,
        check_vma=False,
    )
    def on_devices(chunks, shared):
        def one_chunk(members):
            return jax.vmap(lambda member: function(member, shared))(members)

        return jax.lax.map(one_chunk, chunks)

    def run(members, shared=None):
        size = jax.tree.leaves(members)[0].shape[0]
        whole = chunk * mesh.size
        padded = -(-size // whole) * whole
        index = np.arange(padded)
        index[size:] = 0
        chunks = jax.tree.map(
            lambda x: np.asarray(x)[index].reshape(padded // chunk, chunk, *x.shape[1:]), members
        )
        out = on_devices(chunks, shared)
        with notice_if_long(f"a batch of {size} under XLA", HANGS, after=SUSPICIOUS):
            return jax.tree.map(lambda x: np.asarray(x).reshape(padded, *x.shape[2:])[:size], out)

    run.compiled = on_devices  # for counting and timing compilations
    return run


def in_pieces(run: Callable[..., Any], size: int) -> Callable[..., Any]:
    """Split the calls of ``run(members, shared)`` into pieces of ``size`` members.

    A program that is compiled for a number of members is thus compiled once.
    """

    def whole(members, shared=None):
        count = jax.tree.leaves(members)[0].shape[0]
        parts = [
            run(jax.tree.map(lambda x: x[at : at + size], members), shared)  # noqa: B023
            for at in range(0, count, size)
        ]
        return jax.tree.map(lambda *x: np.concatenate(x), *parts)

    return whole
