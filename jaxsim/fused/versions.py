"""What differs between the versions of JAX: how the parameters of an equation are read.

JAX 0.10 names how many of a scan's operands are constants and carries; from 0.11 on they are flat
trees, one of each part. From 0.12 on some functions (``searchsorted``) are traced as one equation
that is expanded when it is lowered.
"""

import jax
from jax.extend.core import ClosedJaxpr


def scan_parts(eqn) -> tuple[int, int]:
    """How many of a scan's operands are constants, and how many carries; the others are its xs."""
    params = eqn.params
    if "ft_in" in params:
        consts, carry, _ = map(len, params["ft_in"].unpack())
        return consts, carry
    return params["num_consts"], params["num_carry"]


def expanded(eqn) -> ClosedJaxpr:
    """What a high-level primitive stands for, in ordinary ones."""
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(lambda *args: eqn.primitive.to_lojax(*args, **eqn.params))(*specs)
