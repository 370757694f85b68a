"""State file of a learner, from which it is resumed to the same numbers."""

import hashlib
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization

from jaxsim.io.files import naming, write_bytes
from optimize.results.folder import RESTORE

FORMAT = 1


class StateError(ValueError):
    """Error of a file that a learner cannot be resumed from."""


def write_state(path: str | os.PathLike, state: Any, **more: Any) -> None:
    """Write all arrays of a state, and numbers or texts beside it, with their digest."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    payload = serialization.msgpack_serialize({"leaves": dict(enumerate_texts(leaves)), **more})
    digest = hashlib.sha256(payload).hexdigest()
    envelope = {"format": FORMAT, "sha256": digest, "payload": payload}
    write_bytes(Path(path), serialization.msgpack_serialize(envelope))


def read_state(path: str | os.PathLike, like: Any) -> tuple[Any, dict[str, Any]]:
    """Read a state with the structure of another one, and the values beside it.

    Raises FileNotFoundError; StateError for a damaged file, or one of another learner.
    """
    with naming(path):
        data = Path(path).read_bytes()
    try:
        envelope: Any = serialization.msgpack_restore(data)
        payload, version = envelope["payload"], envelope["format"]
        if hashlib.sha256(payload).hexdigest() != envelope["sha256"] or version != FORMAT:
            raise ValueError("its digest or format does not match")
        content: Any = serialization.msgpack_restore(payload)
        kept = content.pop("leaves")
        leaves = [kept[str(k)] for k in range(len(kept))]
        shapes = [(x.shape, x.dtype) for x in leaves]
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file breaks the decoder in many ways
        raise StateError(f"{path} is damaged ({error}); {RESTORE}") from error
    own, tree = jax.tree.flatten(like)
    if [(x.shape, x.dtype) for x in own] != shapes:
        raise StateError(
            f"{path} is of another learner: its arrays have other sizes. Go on with the scenario"
            " and the options that it began with"
        )
    return jax.tree.unflatten(tree, [jnp.asarray(x) for x in leaves]), content


def enumerate_texts(leaves: list) -> list[tuple[str, Any]]:
    """Pair leaves with their number as a text, as MessagePack keys are."""
    return [(str(k), leaf) for k, leaf in enumerate(leaves)]
