"""Programs that are compiled once, however often their function is defined anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.model import ModelBuilder, free, neutral_state, plane, sphere
from jaxsim.programs import run_compiled
from jaxsim.simulation.measures import final
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from tests.laws.bodies import Limp
from tests.test_project import assert_ok, run_python


def ball():
    """A ball on the ground, built anew."""
    b = ModelBuilder()
    b.add_link("ball", "world", mass=1.0, inertia=(0.01,) * 3, joints=[free("root")])
    b.add_shape("ball", sphere(0.1))
    b.add_shape("world", plane())
    return b.build()


def rolled(speed, steps=3, factor=1.0, backend="xla"):
    """A cell of a notebook: all that a rollout takes is made again."""
    model = ball()
    state = neutral_state(model)
    state = state.replace(q=state.q.at[2].set(0.1), qd=state.qd.at[0].set(speed))
    measures = {"x": final(lambda sample: factor * sample.obs.com[0])}
    config = TimeStepping(dt=0.001)
    return rollout(model, Limp(), state, config, steps, measures, backend=backend).measures["x"]


@pytest.fixture(scope="module")
def compiled():
    """Names of what XLA compiles or finds in its cache."""
    names = []

    def seen(event, _, **about):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(seen)
    yield names
    jax.monitoring.unregister_event_duration_listener(seen)


@pytest.mark.parametrize(
    "call", [rolled, lambda v: jax.vmap(rolled)(v + jnp.arange(3.0))], ids=["one", "batch"]
)
def test_a_rollout_that_is_called_again_compiles_nothing(call, compiled):
    first = call(1.0)
    compiled.clear()
    again = call(2.0)
    assert [name for name in compiled if "rollout" in str(name)] == []
    assert (np.asarray(again) > np.asarray(first)).all()


def test_what_a_function_closes_over_is_looked_at_each_time():
    np.testing.assert_allclose(rolled(1.0, factor=3.0), 3 * rolled(1.0, factor=1.0), rtol=1e-6)


def test_values_of_vmap_and_of_derivatives_that_the_function_closes_over():
    def scaled(k):
        return run_compiled(lambda x: k * x, [jnp.arange(3.0)])

    np.testing.assert_allclose(jax.vmap(scaled)(jnp.array([1.0, 2.0])), [[0, 1, 2], [0, 2, 4]])
    assert jax.grad(lambda k: scaled(k).sum())(1.0) == 3.0


def test_shapes_of_other_ranks_are_not_promoted():
    with jax.numpy_rank_promotion("raise"):
        jax.make_jaxpr(lambda v: rolled(v))(1.0)


def test_python_m_is_the_command():
    done = run_python("import runpy, sys; sys.argv[1:] = ['--version'];"
                      "runpy.run_module('jaxsim', run_name='__main__')")  # fmt: skip
    assert_ok(done)
    assert done.stdout.startswith("jaxsim ")


def test_a_batch_over_devices_by_shard_map():
    """Traced only: carries of all loops vary over the mesh as the state does."""
    code = """
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import Mesh, PartitionSpec as P
        from jaxsim import EventDriven, TimeStepping, planar_human, rollout, start
        from tests.laws.bodies import Limp

        mesh, human = Mesh(np.array(jax.devices()), ("d",)), planar_human()
        begun = start(human, "standing")
        for scheme in (TimeStepping(dt=0.001), EventDriven()):
            def one(v):
                state = begun.replace(qd=begun.qd.at[0].set(v))
                return rollout(human, Limp(), state, scheme, 2, backend="xla").state.q

            each = jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
            print(jax.eval_shape(each, jnp.arange(4.0)).shape)
    """
    done = run_python(code, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert_ok(done)
    assert done.stdout.split("\n")[:2] == ["(4, 18)", "(4, 18)"]
