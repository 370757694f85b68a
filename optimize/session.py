"""JAX settings of a command: devices, precision, and the cache of compiled programs."""

import contextlib
from collections.abc import Iterator

from jaxsim.threads import cores, thread_counts

__all__ = ["NoDevice", "cores", "session"]


class NoDevice(ValueError):
    """Error for a device that was requested and is not there."""


@contextlib.contextmanager
def session(
    device: str | None,
    precision: str | None,
    cache: bool = True,
    cpu_devices: int = 1,
    notices: bool = True,
) -> Iterator[list[str]]:
    """Context for commands with a device and precision; gives notes for the user.

    Settings are restored at the end. device: "cpu", "gpu", or None for JAX's own choice. precision:
    "float32", "float64", or None for float64 on a CPU and float32 on a GPU. cache: reuse compiled
    programs from one run to the next; a cache folder that JAX has already stays.
    cpu_devices: how many the CPU is split into, for batches; possible only before JAX has started.
    notices: report on stderr what compiles for long.

    Raises NoDevice, naming the remedy.
    """
    import jax

    from jaxsim.compilation import LONG, notices_after

    notes: list[str] = []
    with notices_after(LONG if notices else None), thread_counts():
        started = not _update("jax_num_cpu_devices", cpu_devices)
        if started and cpu_devices > 1 and jax.local_device_count("cpu") < cpu_devices:
            notes.append("JAX has already started; its CPU is used as it is")
        if device == "cpu" and not started:
            _update("jax_platforms", "cpu")
        _check_device(device)
        if precision is None:
            precision = "float64" if jax.default_backend() == "cpu" else "float32"
        with _cache(cache, notes), jax.enable_x64(precision == "float64"):
            yield notes


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
def _cache(enabled: bool, notes: list[str]) -> Iterator[None]:
    """Context with the persistent compilation cache on or off; restores the previous setting."""
    from jaxsim import compilation

    before = compilation.cache_settings()
    try:
        if enabled:
            compilation.enable_cache()
        else:
            compilation.set_cache({"jax_enable_compilation_cache": False})
    except OSError as error:
        notes.append(f"{error}; compiled anew at every start")
    try:
        yield
    finally:
        compilation.set_cache(before)
