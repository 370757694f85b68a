"""Counting the kernels and operations of compiled programs."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks._hlo import count

SIZE = 16


def compiled(function, *args):
    return jax.jit(function).lower(*args).compile()


def test_product_and_elementwise_operations_are_counted_as_xla_does():
    x = jnp.ones((SIZE, SIZE))
    program = compiled(lambda x: jnp.sin(x @ x) * x + 1.0, x)
    counts = count(program.as_text())
    cost = program.cost_analysis()
    wanted = cost["flops"] + cost.get("transcendentals", 0.0)
    assert counts.flops == pytest.approx(wanted, rel=0.02)
    assert counts.flops == pytest.approx(2 * SIZE**3 + 3 * SIZE**2, rel=0.02)
    assert 1 <= counts.kernels <= 3 and counts.open_loops == 0


def test_loops_count_by_their_trips():
    def nested(x):
        def outer(x, _):
            return jax.lax.fori_loop(0, 3, lambda _, x: jnp.sin(x) * 2 + x, x), None

        return jax.lax.scan(outer, x, None, length=7)[0]

    counts = count(compiled(nested, jnp.ones(1000)).as_text())
    assert counts.flops == pytest.approx(7 * 3 * 3 * 1000, rel=0.02)
    assert counts.kernels >= 7 * 3
    per_step = counts.per(7)
    assert per_step.flops == pytest.approx(9000, rel=0.02)
    assert per_step.instructions == counts.instructions


def test_loop_of_unknown_length_is_counted_once_and_said():
    def until(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) > 1, lambda x: x * 0.5, x)

    counts = count(compiled(until, jnp.ones(1000)).as_text())
    assert counts.open_loops == 1
    assert counts.flops == pytest.approx(1000, rel=0.05)


def test_other_text_is_refused():
    with pytest.raises(ValueError, match="no entry computation"):
        count("not a program")
