"""JAX as the command line wants it: devices, precision, and the cache of compiled programs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

THREADS = 8  # of XLA on a CPU, at least


class NoDevice(ValueError):
    """A device that was asked for and is not there."""


def cache_folder() -> Path:
    """Where compiled programs are kept: $XDG_CACHE_HOME/jaxsim/xla, else ~/.cache/jaxsim/xla."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "jaxsim" / "xla"


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def session(
    device: str | None, precision: str | None, cache: bool = True, cpu_devices: int = 1
) -> Iterator[list[str]]:
    """Run commands inside; gives notes for the user. Settings are put back at the end.

    device: "cpu", "gpu", or None for JAX's own choice. precision: "float32", "float64", or None
    for float64 on a CPU and float32 on a GPU. cache: keep compiled programs from one run to the
    next; a folder that JAX was told to use already is kept. cpu_devices: how many the CPU is split
    into, for batches; possible only before JAX has started.

    Raises NoDevice, naming the remedy.
    """
    import jax

    notes: list[str] = []
    with _more_threads():
        started = not _update("jax_num_cpu_devices", cpu_devices)
        if started and cpu_devices > 1 and jax.local_device_count("cpu") < cpu_devices:
            notes.append("JAX has already started; its CPU is used as it is")
        if device == "cpu" and not started:
            _update("jax_platforms", "cpu")
        _check_device(device)
        if precision is None:
            precision = "float64" if jax.default_backend() == "cpu" else "float32"
        with _cache(cache), jax.enable_x64(precision == "float64"):
            yield notes


@contextlib.contextmanager
def _more_threads() -> Iterator[None]:
    """XLA starts with as many threads as NPROC says: with THREADS, unless the user has set it.

    With two, a batch of factorisations in a loop, as in the synthesis, can wait for itself for
    ever.
    """
    if "NPROC" in os.environ or cores() >= THREADS:
        yield
        return
    os.environ["NPROC"] = str(THREADS)
    try:
        yield
    finally:
        os.environ.pop("NPROC", None)


def _update(name: str, value: object) -> bool:
    """Set an option of JAX; False where JAX has started and it is too late."""
    import jax

    try:
        jax.config.update(name, value)
    except RuntimeError:
        return False
    return True


def _check_device(device: str | None) -> None:
    import jax

    if device is None:
        return
    kinds = ("gpu", "cuda", "rocm") if device == "gpu" else (device,)
    if jax.default_backend() not in kinds:
        raise NoDevice(
            f"JAX has no {device} here, it runs on: {jax.default_backend()}."
            + (
                ' For an NVIDIA GPU: pip install "jaxsim-characters[cuda12]", or [cuda13], by what'
                " nvidia-smi says; or leave out --device"
                if device == "gpu"
                else " Leave out --device, or set JAX_PLATFORMS=cpu"
            )
        )


@contextlib.contextmanager
def _cache(wanted: bool) -> Iterator[None]:
    """The persistent compilation cache on or off, as it was before at the end."""
    import jax

    names = (
        "jax_enable_compilation_cache",
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], wanted)
    if wanted and before[names[1]] is None:
        jax.config.update(names[1], os.fspath(cache_folder()))
        jax.config.update(names[2], 0.3)
        jax.config.update(names[3], -1)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
