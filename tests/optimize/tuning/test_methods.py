"""Every method finds its way and goes on exactly; chains; what names mean."""

import jax
import numpy as np
import pytest

from optimize.problems.fitness import Evaluation
from optimize.results.folder import RunFolder
from optimize.tuning.checkpoint import Checkpoint
from optimize.tuning.descent import optimisers
from optimize.tuning.evolution import evolve
from optimize.tuning.methods import method
from optimize.tuning.names import EVOLUTION, Stage, stages
from tests.optimize.tuning.test_evolution import Break, assert_same, ctrl_c

N, POPULATION = 3, 6
METHODS = [*EVOLUTION, "adam", "sgd@0.05", "cma:3,adam:4", "random:2,sep-cma:3,rmsprop"]


def bowl(x):
    return Evaluation((x**2).sum(axis=1), {}, False, len(x))


def bowl_slopes(x):
    return (x**2).sum(axis=1), 2 * x


def run(name, evaluate=bowl, generations=8, **changes):
    options = dict(mean=np.ones(N), sigma=0.5, population=POPULATION, seed=3, progress=False)
    options |= {"slopes": bowl_slopes}
    return evolve(evaluate, generations=generations, method=name, **(options | changes))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_closer_and_goes_on_exactly(name, tmp_path):
    whole = run(name)
    assert whole.best_fitness < whole.history[0].best
    run(name, generations=4, folder=tmp_path)
    assert_same(run(name, folder=tmp_path, resume=True), whole)
    if name in EVOLUTION:
        (tmp_path / "cut").mkdir()
        assert run(name, Cut(4), folder=tmp_path / "cut").interrupted
        assert_same(run(name, folder=tmp_path / "cut", resume=True), whole)


class Cut(Break):
    def __init__(self, at):
        super().__init__(at, ctrl_c)

    def __call__(self, x):
        super().__call__(np.ones((len(x), 5)))
        return bowl(x)


@pytest.mark.parametrize("kind", ["ipop", "bipop"])
def test_restarts_go_on_exactly(kind, tmp_path):
    def many(x):  # a search ends soon on steps
        return Evaluation(np.floor(4 * (x**2).sum(axis=1)))

    whole = run("cma", many, 60, restarts=kind)
    assert whole.history[-1].restarts >= 1
    run("cma", many, 33, restarts=kind, folder=tmp_path)
    assert_same(run("cma", many, 60, restarts=kind, folder=tmp_path, resume=True), whole)


def test_a_chain_polishes_the_best_member(tmp_path):
    seen = []

    def slopes(x):
        seen.append(x.copy())
        return bowl_slopes(x)

    options = dict(mean=np.ones(N), sigma=0.5, population=6, seed=3, progress=False)
    found = evolve(bowl, generations=9, method="cma:3,adam", slopes=slopes, **options)
    evolved = evolve(bowl, generations=3, **options)
    np.testing.assert_array_equal(seen[0][0], evolved.best_x)
    assert [record.members for record in found.history] == [1, *[6] * 3, *[1] * 6]
    assert found.best_fitness < evolved.best_fitness


def test_a_step_into_nothing_is_halved():
    def slopes(x):
        value = np.where(x[:, 0] < 0.5, np.nan, (x**2).sum(axis=1))
        return value, 2 * x

    found = evolve(
        bowl, np.array([0.6, 0.0]), sigma=1.0, population=4, generations=30, seed=0, method="adam",
        slopes=slopes, progress=False,
    )  # fmt: skip
    assert found.history[1].failures == 0 and sum(r.failures for r in found.history) > 0
    assert 0.25 <= found.best_fitness < 0.36
    with pytest.raises(FloatingPointError, match="not finite at the start"):
        run("adam", slopes=lambda x: (np.full(len(x), np.nan), x))


def test_methods_along_a_derivative_need_one():
    with pytest.raises(ValueError, match="needs slopes="):
        evolve(
            bowl, np.ones(2), sigma=0.5, population=4, generations=1, seed=0, method="adam",
            progress=False,
        )  # fmt: skip


def test_names():
    assert stages("cma:40,adam@0.1:20") == (Stage("cma", 40), Stage("adam@0.1", 20))
    assert {"adam", "adamw", "sgd", "rmsprop", "lion", "yogi"} <= set(optimisers())
    assert not {"lbfgs", "scale_by_adam", "polyak_sgd"} & set(optimisers())
    for text, says in [
        ("cma,adam", "how many generations"),
        ("cma:x", "a number of generations"),
    ]:
        with pytest.raises(ValueError, match=says):
            stages(text)
    for text, says in [
        ("cmaes", "there are cma, sep-cma"),
        ("adam@fast", "a learning rate"),
        ("lbfgs", "there are cma"),
    ]:
        with pytest.raises(ValueError, match=says):
            method(text, dimensions=2, population=4)
    with pytest.raises(ValueError, match="are of the method cma"):
        method("random", dimensions=2, population=4, restarts="ipop")
    with pytest.raises(ValueError, match="there are ipop, bipop"):
        method("cma", dimensions=2, population=4, restarts="often")
    with pytest.raises(ValueError, match="population is even"):
        method("openai-es", dimensions=2, population=5)


def test_another_method_is_another_run(tmp_path):
    run("cma", generations=1, folder=tmp_path)
    with pytest.raises(ValueError, match=r"method cma \(now random\)"):
        run("random", generations=2, folder=tmp_path, resume=True)
    assert Checkpoint.load(tmp_path / RunFolder.CHECKPOINT).settings.method == "cma"


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("population", [6, 9])
def test_ours_with_masks_is_the_cma_of_evosax(population):
    """Told the same members, in a larger array, to float tolerance."""
    plain = method("cma", dimensions=4, population=population)
    masked = method("cma", dimensions=4, population=12, restarts="masked")
    one, two = (m.init(np.ones(4), 0.5, population, 0) for m in (plain, masked))
    ask, tell = jax.jit(plain.ask), jax.jit(plain.tell)
    ask_masked, tell_masked = jax.jit(masked.ask), jax.jit(masked.tell)
    scales = np.geomspace(1.0, 30.0, 4)
    for _ in range(25):
        x, one = ask(one)
        other, two = ask_masked(two)
        fitness = ((scales * np.asarray(x)) ** 2).sum(axis=1)
        one = tell(one, x, fitness)
        padded, judged = np.array(other), np.full(12, -1.0)  # rows beyond it count for nothing
        padded[:population], judged[:population] = x, fitness
        two = tell_masked(two, padded, np.stack([judged, 0 * judged], axis=1))
    np.testing.assert_allclose(masked.mean(two), plain.mean(one), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(masked.sigma(two), plain.sigma(one), rtol=1e-4)
    np.testing.assert_allclose(two.now.C, one.inner.C, rtol=1e-3, atol=1e-5)
