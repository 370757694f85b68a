"""Differences between versions of JAX in the parameters of equations.

JAX 0.10 has the numbers of a scan's constants and carries; from 0.11 on they are flat trees, one of
each kind. From 0.12 on some functions (``searchsorted``) are traced as one equation that is
expanded when it is lowered.
"""

import jax
from jax.extend.core import ClosedJaxpr


def scan_parts(eqn) -> tuple[int, int]:
    """Numbers of a scan's constants and carries; its other operands are the xs."""
    params = eqn.params
    if "ft_in" in params:
        consts, carry, _ = map(len, params["ft_in"].unpack())
        return consts, carry
    return params["num_consts"], params["num_carry"]


def expand(eqn) -> ClosedJaxpr:
    """Expand a high-level primitive to a jaxpr of ordinary ones."""
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(lambda *args: eqn.primitive.to_lojax(*args, **eqn.params))(*specs)
