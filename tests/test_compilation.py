"""The cache of compiled programs, the notices of what takes long, and the numbers of threads."""

import time

import jax
import jax.numpy as jnp
import pytest

from jaxsim import compilation, threads
from jaxsim.compilation import Watch, cache_settings, compile_notices, enable_cache, notice_if_long
from tests.test_project import assert_ok, run_python


@pytest.fixture
def settings():
    """JAX's options of the cache, put back at the end."""
    before = cache_settings()
    yield before
    compilation.set_cache(before)


def test_a_folder_of_the_users_is_kept(settings, tmp_path):
    compilation.set_cache({"jax_compilation_cache_dir": str(tmp_path)})
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    assert enable_cache() == tmp_path
    assert jax.config.jax_persistent_cache_min_compile_time_secs == least


def test_a_folder_that_cannot_be_is_told(settings, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be made.*file"):
        enable_cache(tmp_path / "file" / "below")
    assert cache_settings() == settings


def test_the_default_folder(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compilation.set_cache({"jax_compilation_cache_dir": None})
    assert enable_cache() == tmp_path / "jaxsim" / "xla"
    assert jax.config.jax_persistent_cache_min_entry_size_bytes == -1


def test_what_is_compiled_after_other_things_is_found_by_the_next_process(tmp_path):
    """JAX asks only once whether there is a cache; here it has compiled something before."""
    code = """
        import sys

        import jax
        import jax.numpy as jnp

        found = []
        jax.monitoring.register_event_listener(lambda event, **_: found.append(event))
        jax.jit(lambda x: x + 1)(jnp.ones(3))  # before there is a cache

        from jaxsim import enable_cache

        enable_cache(sys.argv[1])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.jit(lambda x: jnp.cos(jnp.sin(x) @ x))(jnp.ones((9, 9)))
        hit = "/jax/compilation_cache/cache_hits" in found
        sys.exit(None if hit == (sys.argv[2] == "second") else f"found: {hit}")
    """
    assert_ok(run_python(code, str(tmp_path), "first"))
    assert_ok(run_python(code, str(tmp_path), "second"))


@pytest.fixture
def notices():
    """Notices after a tenth of a second, until the end of the test."""
    with compilation.notices_after(0.1):
        yield


def slow(name):
    """A new function that XLA takes a while to compile."""

    def f(x):
        for k in range(6):
            x = jnp.sin(jnp.linalg.solve(jnp.eye(3) + k * jnp.outer(x, x), x))
        return x

    f.__name__ = name
    return jax.jit(f)


def test_xla_is_watched_and_its_end_is_told(notices, settings, capfd):
    compilation.set_cache({"jax_enable_compilation_cache": False})
    slow("this_one")(jnp.ones(3))
    said = [line for line in capfd.readouterr().err.splitlines() if "this_one" in line]
    assert said[0].startswith("jaxsim: compiling jit(this_one), 0 s so far")
    assert said[-1].startswith("jaxsim: compiling jit(this_one): done after ")


def test_what_is_lowered_only_is_not_waited_for(notices, capfd):
    jax.jit(lambda x: x * 3).lower(jnp.ones(3))
    time.sleep(0.3)
    assert capfd.readouterr().err == ""


def test_they_can_be_switched_off(notices, settings, capfd):
    compilation.set_cache({"jax_enable_compilation_cache": False})
    compile_notices(after=None)
    slow("that_one")(jnp.ones(3))
    with notice_if_long("sleeping"):
        time.sleep(0.3)
    assert capfd.readouterr().err == ""


def test_a_wait_is_told_once_with_what_to_do(notices, capfd):
    with notice_if_long("a batch", threads.HANGS):
        time.sleep(0.3)
    first, last = capfd.readouterr().err.splitlines()
    assert first.startswith("jaxsim: a batch, 0 s so far; if it never ends") and "NPROC=8" in first
    assert last.startswith("jaxsim: a batch: done after 0.")
    with notice_if_long("a short one"):
        pass
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_an_error_ends_the_watch(notices, capfd):
    with pytest.raises(ZeroDivisionError), notice_if_long("dividing"):
        _ = 1 / 0
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ValueError, match="after is 0; give a positive time"):
        compile_notices(after=0)


def test_a_fused_kernel_is_watched(monkeypatch):
    from jaxsim.fused import fuse, launch

    begun = []
    monkeypatch.setattr(
        launch, "notice_if_long", lambda what: begun.append(what) or notice_if_long(what)
    )
    double = fuse(lambda x: 2.5 * x + 1, backend="fused")
    for _ in range(2):
        double(jnp.ones((3, 2)))
    assert begun == ["making a fused kernel", "compiling a fused kernel"]


def test_importing_changes_nothing():
    """No listener, no cache, no thread, no variable of the environment."""
    code = """
        import os, threading

        before = dict(os.environ)
        import jax

        cache = jax.config.jax_compilation_cache_dir
        import jaxsim, jaxsim.compilation, jaxsim.simulation.rollout, optimize.cli.main

        assert dict(os.environ) == before
        assert jax.config.jax_compilation_cache_dir == cache
        assert not jaxsim.compilation._notices.listening
        assert threading.active_count() == 1
    """
    assert_ok(run_python(code))


def test_the_first_model_starts_xla_with_threads_enough():
    code = """
        import os

        seen = []

        import jax

        make = jax.numpy.zeros
        jax.numpy.zeros = lambda *a, **k: seen.append(os.environ.get("NPROC")) or make(*a, **k)
        from jaxsim.model import ModelBuilder, hinge
        from jaxsim.threads import cores

        os.environ.pop("NPROC", None)
        b = ModelBuilder()
        b.add_link("rod", "world", mass=1.0, inertia=(1, 1, 1), joints=[hinge("pin", (0, 1, 0))])
        b.build()
        assert seen[0] == ("8" if cores() < 8 else None), seen
        assert "NPROC" not in os.environ
    """
    assert_ok(run_python(code))


@pytest.mark.parametrize("given", [None, "2"])
def test_lapack_has_one_thread_unless_the_user_has_said_how_many(given):
    """As the library that is loaded tells, where it is the one of SciPy's packages."""
    code = f"""
        import ctypes, os

        for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ.pop(name, None)
        given = {given!r}
        if given is not None:
            os.environ["OMP_NUM_THREADS"] = given
        from jaxsim.threads import thread_counts

        with thread_counts():
            assert "OPENBLAS_NUM_THREADS" not in os.environ
        import scipy.linalg.cython_lapack

        maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
        names = {{line.split()[-1] for line in maps.splitlines() if "scipy_openblas-" in line}}
        for name in names:
            print("looked", ctypes.CDLL(name).scipy_openblas_get_num_threads())
    """
    done = run_python(code)
    assert_ok(done)
    if not done.stdout:
        pytest.skip("this SciPy has another LAPACK")
    assert done.stdout.split() == ["looked", given or "1"]


def test_watches_are_no_burden():
    """A watch that has nothing to tell takes a fraction of a millisecond."""
    began = time.perf_counter()
    for _ in range(50):
        Watch("nothing").end()
    assert (time.perf_counter() - began) / 50 < 0.02
