"""Import of Dr.Jit: on the CPU with a tested LLVM library, or on the GPU.

Importing drjit loads the LLVM library that ``DRJIT_LIBLLVM_PATH`` names, for good. An old one is
worse than none: with LLVM 15 and 16 arithmetic runs, but a float maximum aborts the process.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from glob import escape, glob
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from jaxsim.fused.core import gpu_core
from jaxsim.fused.cuda import SETTING as DRIVER_SETTING
from jaxsim.fused.cuda import name_driver
from jaxsim.fused.errors import FusedUnavailable

SETTING = "DRJIT_LIBLLVM_PATH"
PACKAGE = "karellen-llvm-core"
OLDEST = 17  # Dr.Jit refuses 14; 15 and 16 abort; 17, 19 and 23 were tried and are fit
TIMEOUT = 60.0  # [s] of a trial
MODULES = {"cpu": "drjit.llvm", "gpu": "drjit.cuda", "cuda": "drjit.cuda"}

_NAMES = ("libLLVM.so*", "libLLVM-*.so*", "libLLVM*.dylib", "LLVM-C.dll")
_FOLDERS = (
    *("/usr/lib", "/usr/lib/*", "/usr/lib64", "/usr/lib*/llvm*/lib*", "/usr/local/lib"),
    *("/opt/homebrew/opt/llvm*/lib", "/usr/local/opt/llvm*/lib"),
)
_LOCK = threading.Lock()

# Arguments: the folder that holds drjit, and the version of LLVM that must be found, if any.
_TRIAL = """
import sys
sys.path.append(sys.argv[1])
import drjit as dr
from drjit import llvm
if not dr.has_backend(dr.JitBackend.LLVM):
    sys.exit("Dr.Jit cannot use it")
if sys.argv[2] not in ("", str(dr.detail.llvm_version())):
    sys.exit(f"Dr.Jit has loaded LLVM {sys.argv[2]} from elsewhere")
N = 21  # lanes that do not fill the last vector

def compute(i, x, Float, Int):
    n = i % 7
    body = lambda k, y: (k + 1, dr.maximum(dr.fma(y, 0.5, Float(k)), dr.minimum(x, 3)))
    y = dr.while_loop((Int(0), x), lambda k, y: k < n, body)[1]
    whole = dr.floor(y) - Float(i // dr.select(n == 0, 1, n))  # no lane divides by zero
    return dr.select(y < 4, dr.sqrt(y), whole)

for Float, Int in ((llvm.Float, llvm.Int), (llvm.Float64, llvm.Int64)):
    i, table, found = dr.arange(Int, N), dr.arange(Float, N) * 0.5, dr.zeros(Float, N)
    dr.make_opaque(i, table, found)
    x = dr.gather(Float, table, llvm.UInt(5 * i % N))
    dr.scatter(found, compute(i, x, Float, Int), llvm.UInt(N - 1 - i))
    right = [compute(i, 0.5 * (5 * i % N), float, int) for i in range(N)][::-1]
    if not all(abs(x - y) < 1e-5 for x, y in zip(found, right)):
        sys.exit(f"it computes {list(found)} where {right} is right")
"""


def prepare(platform: str = "cpu") -> ModuleType:
    """Import Dr.Jit for a platform: ``drjit.llvm`` for "cpu", ``drjit.cuda`` for "gpu", "cuda".

    Call it before anything imports drjit; the first call of a process decides. Raises
    FusedUnavailable with the missing library and the remedy.
    """
    with _LOCK:
        module = _prepared(platform)
    if isinstance(module, str):
        raise FusedUnavailable(module)
    return module


def find_llvm() -> Path:
    """Find the LLVM library to use: the user's setting, the package's, or the system's newest.

    Raises FusedUnavailable if the setting is unfit, or if there is none and no library is fit.
    """
    if setting := os.environ.get(SETTING):
        path = Path(setting)
        path = path if path.name == setting else path.absolute()  # a bare name is the loader's
        if reason := is_fit(path):
            raise FusedUnavailable(
                f"{SETTING}={setting} is unfit for the fused back end: {reason}."
                f" Unset it, or name an LLVM library of version {OLDEST} or newer"
            )
        return path
    unfit = []
    for path in dict.fromkeys(_candidates()):
        if not (reason := is_fit(path)):
            return path
        unfit.append(f"{path}: {reason}")
    raise FusedUnavailable(
        f"the fused back end needs an LLVM library of version {OLDEST} or newer"
        f" ({'; '.join(unfit) or 'found none'}). On Linux x86-64: pip install {PACKAGE}."
        f" Elsewhere: apt install libllvm19, or brew install llvm. Or name one in {SETTING}"
    )


def is_fit(path: Path) -> str | None:
    """Test a library with Dr.Jit: None if it is fit, else the reason in a line.

    ``path`` is absolute, or a bare name for the system's loader. A child process runs the test. The
    user's cache folder stores that a file is fit, not that it is unfit, which may be temporary.
    """
    note, content = _note(path)
    with suppress(OSError, ValueError):
        if content and note.read_text() == content:
            return None
    reason = _trial(str(path))
    if content and reason is None:
        with suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(content)
    return reason


@cache
def _prepared(platform: str) -> ModuleType | str:
    """Module of Dr.Jit for a platform, or the reason against it."""
    if platform not in MODULES:
        return f"no fused back end for platform {platform!r}; there are {', '.join(MODULES)}"
    try:
        lacking = _choose_libraries(platform != "cpu")  # a process may use both
        if lacking and platform == "cpu":
            return lacking
        module = import_module(MODULES[platform])
    except FusedUnavailable as error:
        return str(error)
    except ImportError as error:
        return f"drjit cannot be imported ({error}); pip install --force-reinstall drjit"
    if platform == "cpu":
        return module
    try:
        works = list(module.Float([1, 2]) + 1) == [2, 3]
        gpu_core()
    except FusedUnavailable as error:
        return str(error)
    except Exception as error:  # of any type; a TypeError where there is no driver
        return (
            f"no GPU for Dr.Jit: {_line(str(error))}. Install NVIDIA's driver; where its"
            f" libcuda.so.1 is in no usual folder, name it in {DRIVER_SETTING} before the start;"
            " or use the cpu"
        )
    return module if works else "Dr.Jit computes wrongly on this GPU; use the cpu"


def _choose_libraries(gpu: bool) -> str | None:
    """Set paths of a fit LLVM library and of the GPU's driver for the import of drjit.

    Returns the reason against the CPU back end, or None.
    """
    drjit = sys.modules.get("drjit")
    if drjit is None:
        _drjit()
        name_driver(load=gpu)
        try:
            os.environ[SETTING] = str(find_llvm())
        except FusedUnavailable as error:
            return str(error)
        return None
    # imported before, with a library that cannot change any more
    known = drjit.has_backend(drjit.JitBackend.LLVM)
    reason = _trial("", str(drjit.detail.llvm_version())) if known else "Dr.Jit found none"
    return reason and (
        f"drjit was imported before the fused back end, without a fit LLVM library: {reason}."
        f" Import it later, or set {SETTING} before the start (pip install {PACKAGE} has one)"
    )


def _drjit() -> tuple[str, str]:
    """Folder that contains drjit, and its version."""
    spec = find_spec("drjit")
    if spec is None or spec.origin is None:
        raise FusedUnavailable(f"the fused back end needs Dr.Jit; pip install drjit {PACKAGE}")
    return str(Path(spec.origin).parents[1]), metadata.version("drjit")


def _trial(library: str, version: str = "") -> str | None:
    """Run the test of a library: the reason against it; an empty name is Dr.Jit's default."""
    command = [sys.executable, "-I", "-c", _TRIAL, _drjit()[0], version]
    # an empty folder: no core file remains, and no kernel of another library is found
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:
        env = {**os.environ, "DRJIT_CACHE_DIR": empty} | ({SETTING: library} if library else {})
        try:
            done = subprocess.run(
                command, env=env, cwd=empty, capture_output=True, text=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return f"no result after {TIMEOUT:g} s"
        except OSError as error:
            return f"no child process can try it: {error}"
    return (_line(done.stderr) or f"exit status {done.returncode}") if done.returncode else None


def _line(text: str) -> str:
    """Most informative line of an error message: the first about the library, or the last."""
    lines = text.strip().splitlines() or [""]
    about = [line for line in lines if re.search("llvm|library", line, re.IGNORECASE)]
    return (about or lines[-1:])[0].strip(" .!")[:200]


def _note(path: Path) -> tuple[Path, str]:
    """File in the cache that records a fit library, and its text; empty for a bare name."""
    try:
        file = path.resolve(strict=True)
        stat = file.stat()
        folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except (OSError, RuntimeError):
        return path, ""
    content = repr((str(file), stat.st_size, stat.st_mtime_ns, *_drjit(), _TRIAL))
    name = hashlib.sha256(content.encode()).hexdigest()[:20]
    return Path(folder, "jaxsim", "llvm", name), content if path.is_absolute() else ""


def _candidates() -> Iterator[Path]:
    """Libraries: the package's, those beside the interpreter, the system's."""
    with suppress(metadata.PackageNotFoundError):
        files = metadata.files(PACKAGE) or []
        yield from _newest(str(f.locate()) for f in files if f.match("libLLVM[.-]*"))
    system = _FOLDERS if sys.platform != "win32" else os.environ.get("PATH", "").split(os.pathsep)
    for folders in ([escape(f"{sys.prefix}/lib")], system):
        yield from _newest(p for f in folders if f for n in _NAMES for p in glob(f"{f}/{n}"))


def _newest(paths: Iterable[str]) -> list[Path]:
    """Resolve links and sort libraries by version, newest first, without versions that are old."""

    def version(file: str) -> int:
        return max(map(int, re.findall(r"llvm(?:\.so\.|[-/\\])?(\d+)", file, re.I)), default=0)

    files = {os.path.realpath(path) for path in paths if os.path.isfile(path)}
    new = [file for file in files if not 0 < version(file) < OLDEST]
    return [Path(file) for file in sorted(new, key=lambda file: (-version(file), file))]
