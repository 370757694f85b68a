"""Random functions give what XLA gives; a member's numbers do not depend on who computes them."""

import jax
import numpy as np
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from jaxsim.fused import fuse
from tests.fused import agree
from tests.fused.random_functions import arguments, functions

EXAMPLES = settings.default.max_examples  # of the profile
# A dozen functions one after the other, each of which may enlarge an error a few times.
TOLERANCE = {"float32": 2e-4, "float64": 1e-11}
PHASES = (Phase.explicit, Phase.generate)  # a smaller function may take minutes to find
cases = st.tuples(functions(), st.integers(0, 2**16), st.booleans())


def given_in(bits: int, args) -> list[np.ndarray]:
    return [x if x.dtype == bool else x.astype(f"{x.dtype.kind}{bits // 8}") for x in args]


@settings(max_examples=5 * EXAMPLES, phases=PHASES)
@given(cases, st.sampled_from((1, 3, 17, 40)), st.sampled_from((32, 64)))
def test_random_functions_agree_with_xla(case, batch, bits):
    function, seed, special = case
    args = given_in(bits, arguments(seed, batch, special))
    with jax.enable_x64(bits == 64):
        note(str(jax.make_jaxpr(function)(*(x[0] for x in args))))
        agree.agree(function, *args, rtol=TOLERANCE, atol=TOLERANCE[f"float{bits}"])


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(cases)
def test_a_member_does_not_depend_on_the_batch_or_the_threads(case):
    import drjit

    function, seed, special = case
    args = given_in(32, arguments(seed, 3000, special))
    run = fuse(function)
    threads = drjit.thread_count()
    together = agree.numbers(run(*args))
    try:
        drjit.set_thread_count(1)
        by_one = agree.numbers(run(*args))
    finally:
        drjit.set_thread_count(threads)
    for x, y in zip(together, by_one):
        assert x.tobytes() == y.tobytes()
    for k in (0, 1234, 2999):
        for x, y in zip(together, run(*(a[k : k + 1] for a in args))):
            assert x[k].tobytes() == np.asarray(y).tobytes()
