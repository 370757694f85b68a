"""What all tests share: compiled programs kept between runs, and float64 on request."""

import gc
import os
from importlib.metadata import version
from pathlib import Path

# A test's program runs a few times: compiling it is what takes long. Without LLVM's optimisation
# and the emitters of fusions (a flag of JAX 0.10 alone; a flag that XLA does not know ends the
# process), and in one piece, it takes a third of the time. Passes that look for what loops
# repeat take a tenth of the rest. Numbers agree to rounding.
# ``XLA_FLAGS= make test`` compiles as users do, which pays for tests that run for minutes.
_flags = (
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    " --xla_disable_hlo_passes="
    "while-loop-invariant-code-motion,while-loop-constant-sinking,simplify-while-loops"
)
if version("jaxlib").startswith("0.10."):
    _flags += " --xla_cpu_use_fusion_emitters=false"

# JAX reads these when it is first imported; notebooks and scripts that tests start inherit them.
_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxsim" / "xla"
for _name, _value in (
    ("JAX_COMPILATION_CACHE_DIR", str(_cache)),
    ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3"),
    ("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1"),
    ("XLA_FLAGS", _flags),
    ("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0"),  # lines in HLO cost a tenth of the time of tracing
    ("NPROC", "8"),  # whatever comes first: with two threads XLA can wait for itself for ever
    ("OPENBLAS_NUM_THREADS", "1"),  # see ``jaxsim.threads``; workers share the cores
):
    os.environ.setdefault(_name, _value)

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

# The same again, in case a plugin has imported JAX before this file.
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update(
    "jax_persistent_cache_min_compile_time_secs",
    float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]),
)
jax.config.update(
    "jax_persistent_cache_min_entry_size_bytes",
    int(os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"]),
)

# The same examples in every run: bounded time, and the compiled programs are found again.
# More, and other ones: HYPOTHESIS_PROFILE=search
_common = dict(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("repeatable", derandomize=True, max_examples=8, **_common)
hypothesis.settings.register_profile("search", max_examples=100, **_common)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# Tracing makes many objects that are no garbage: a collector that looks at them every few hundred
# takes a tenth of the time.
gc.set_threshold(10_000, 10, 10)


def pytest_collection_modifyitems(items):
    """The file that takes longest comes first: in the end no worker is left alone with it."""
    items.sort(key=lambda item: item.path.name != "test_guides.py")


def pytest_collection_finish():
    """What is imported stays."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _mapped_memory_is_bounded():
    """Each compiled program maps memory three times, and Linux gives a process 65530 mappings;
    where they end, the compiler crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def x64():
    """float64 for one test; a module asks with ``pytestmark = pytest.mark.usefixtures("x64")``."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def x64_module():
    """float64 for all of a module; for fixtures of module scope that build arrays."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _precision_is_put_back():
    """A test that leaves JAX in another precision than it found fails, not the ones after it."""
    before = jax.config.jax_enable_x64
    yield
    after = jax.config.jax_enable_x64
    if after != before:
        jax.config.update("jax_enable_x64", before)
    assert after == before, "the test changed jax_enable_x64; use the x64 fixture"
