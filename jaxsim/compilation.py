"""Cache of compiled programs, and notices of long compilations.

    import jaxsim

    jaxsim.enable_cache()                    # compiled programs are cached for the next start
    jaxsim.compile_notices(after=None)       # no notices of long compilations on stderr

Nothing happens on import: the notices begin with the first rollout, or with ``compile_notices``.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jax

LONG = 5.0  # least duration of a compilation with a notice [s]
REMINDERS = (30.0, 120.0, 600.0)  # times of further notices [s]
# XLA's options that ``enable_cache`` sets: programs that compile faster are not cached.
_OPTIONS = {
    "jax_enable_compilation_cache": True,
    "jax_persistent_cache_min_compile_time_secs": 0.3,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
_FOLDER = "jax_compilation_cache_dir"
_STARTS = "/jax/core/compile/jaxpr_to_mlir_module_duration"  # event just before XLA compiles
_ENDS = "/jax/core/compile/backend_compile_duration"


def cache_folder() -> Path:
    """Folder of cached programs: $XDG_CACHE_HOME/jaxsim/xla, else ~/.cache/jaxsim/xla."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "jaxsim" / "xla"


def enable_cache(folder: str | os.PathLike | None = None) -> Path:
    """Cache XLA's compiled programs in a folder for the next start of a script.

    folder: by default the one in JAX's settings, which then do not change, else
    ``cache_folder()``, which the command line uses too. May be called at any time; only JAX's
    settings of the cache change. Dr.Jit caches fused kernels, with or without this. Returns the
    folder; raises OSError where it cannot be written.
    """
    given = getattr(jax.config, _FOLDER)
    if folder is None and given is not None:
        set_cache({"jax_enable_compilation_cache": True})
        return Path(given)
    path = Path(folder or cache_folder()).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        writable = os.access(path, os.W_OK)
    except OSError as error:
        raise OSError(f"the cache of compiled programs cannot be made: {error}") from error
    if not writable:
        raise OSError(f"the cache of compiled programs cannot be written: {path}; give another")
    set_cache({**_OPTIONS, _FOLDER: os.fspath(path)})
    return path


def cache_settings() -> dict[str, object]:
    """Current values of JAX's options of the cache; for ``set_cache``."""
    return {name: getattr(jax.config, name) for name in (*_OPTIONS, _FOLDER)}


def set_cache(options: dict[str, object]) -> None:
    """Set options of JAX's cache, also after programs were compiled."""
    from jax.experimental.compilation_cache import compilation_cache

    before = cache_settings()
    for name, value in options.items():
        jax.config.update(name, value)
    if cache_settings() != before:
        compilation_cache.reset_cache()  # JAX asks only once whether there is one


# ---- notices ----------------------------------------------------------------------------------


class _Notices:
    """Settings of the notices, and the watches of the compilations that run now."""

    def __init__(self):
        self.after: float | None = LONG
        self.listening = False
        self.of_thread = threading.local()  # .watch: of XLA's compilation in that thread


_notices = _Notices()


def compile_notices(after: float | None = LONG) -> None:
    """Report compilations longer than ``after`` [s] on stderr; None: never.

    There is a notice after that time, after half a minute, two and ten minutes, and at the end,
    with the time so far, for all compilations of XLA and the fused back end in this process.
    """
    if after is not None and not after > 0:
        raise ValueError(f"after is {after}; give a positive time in seconds, or None")
    _notices.after = after
    if after is not None:
        listen()


@contextlib.contextmanager
def notices_after(after: float | None) -> Iterator[None]:
    """Context with other ``compile_notices``; the old ones return after it."""
    before = _notices.after
    compile_notices(after)
    try:
        yield
    finally:
        _notices.after = before


def listen() -> None:
    """Start to watch XLA's compilations; once a process."""
    if not _notices.listening:
        _notices.listening = True
        jax.monitoring.register_event_duration_secs_listener(_on_event)


def _on_event(event: str, duration_secs: float, **about: str | int) -> None:
    """Start and end the watch of a compilation; XLA compiles as soon as a program is lowered."""
    local = _notices.of_thread
    if event == _STARTS and _notices.after is not None:
        _end(local)
        local.watch = Watch(f"compiling {about.get('fun_name', 'a program')}", by_xla=True)
    elif event == _ENDS:
        _end(local)


def _end(local: threading.local) -> None:
    watch = getattr(local, "watch", None)
    if watch is not None:
        local.watch = None
        watch.end()


@contextlib.contextmanager
def notice_if_long(what: str, hint: str = "", after: float | None = None) -> Iterator[None]:
    """Context that reports on stderr how long ``what`` takes, if it takes long; hint: a remedy.

    after: time of the first notice [s], by default that of ``compile_notices``.
    """
    if _notices.after is None:
        yield
        return
    watch = Watch(what, hint, after)
    try:
        yield
    finally:
        watch.end()


class Watch:
    """Thread that waits beside another one, and reports if that takes long."""

    def __init__(self, what: str, hint: str = "", after: float | None = None, by_xla: bool = False):
        self.what, self.hint, self.by_xla = what, hint, by_xla
        self.after = after or _notices.after or LONG
        self.began, self.told = time.perf_counter(), False
        self.thread, self.done = threading.get_ident(), threading.Event()
        threading.Thread(target=self._wait, daemon=True, name="jaxsim notices").start()

    def end(self) -> None:
        """End the watch, with a last notice if there was one before."""
        self.done.set()
        if self.told:
            seconds = time.perf_counter() - self.began
            kept = self.by_xla and getattr(jax.config, _FOLDER) is None
            advice = "; jaxsim.enable_cache() keeps it for the next start" if kept else ""
            _say(f"{self.what}: done after {seconds:.1f} s{advice}")

    def _wait(self) -> None:
        for when in (self.after, *(r for r in REMINDERS if r > self.after)):
            if self.done.wait(max(when - (time.perf_counter() - self.began), 0.0)):
                return
            if self.by_xla and not _compiles(self.thread):
                return  # lowered only, as jax.jit(f).lower(...) does
            self.told = True
            seconds = time.perf_counter() - self.began
            _say(f"{self.what}, {seconds:.0f} s so far" + (f"; {self.hint}" if self.hint else ""))


def _compiles(thread: int) -> bool:
    """True if a thread is inside JAX's call of XLA's compiler."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if Path(frame.f_code.co_filename).parts[-3:] == ("jax", "_src", "compiler.py"):
            return True
        frame = frame.f_back
    return False


def _say(text: str) -> None:
    """Write a line to stderr, above a progress bar if there is one."""
    from tqdm import tqdm

    tqdm.write(f"jaxsim: {text}", file=sys.stderr)
