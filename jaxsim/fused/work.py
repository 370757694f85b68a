"""Quick estimate of the number of operations in a jaxpr, before folding."""

import math
from functools import lru_cache

FREE = {
    "broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "concatenate", "stack", "pad",
    "iota", "rev", "split", "copy", "stop_gradient", "expand_dims",
}  # fmt: skip
ROUNDS = 20  # assumed rounds of a while loop


@lru_cache(maxsize=4096)
def work(jaxpr) -> int:
    """Number of operations of an (open) jaxpr, with all branches and all rounds of its loops."""
    return sum(map(_of_equation, jaxpr.eqns))


def _of_equation(eqn) -> int:
    name, params = eqn.primitive.name, eqn.params
    if name == "cond":
        return sum(work(branch.jaxpr) for branch in params["branches"])
    if name == "while":
        return ROUNDS * work(params["body_jaxpr"].jaxpr)
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    if inner is not None:
        return work(getattr(inner, "jaxpr", inner)) * (params["length"] if name == "scan" else 1)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        terms = math.prod(eqn.invars[0].aval.shape[d] for d in contracted)
        return 2 * math.prod(eqn.outvars[0].aval.shape) * terms
    if name.startswith("reduce_") or name in ("argmax", "argmin"):
        return math.prod(eqn.invars[0].aval.shape)
    if name in FREE:
        return 0
    return sum(math.prod(v.aval.shape) for v in eqn.outvars)
