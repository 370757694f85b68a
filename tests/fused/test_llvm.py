"""The LLVM library of the fused back end: tried before it is trusted, named when unfit."""

import subprocess
import sys
from pathlib import Path

import pytest

from jaxsim.fused import llvm
from jaxsim.fused.errors import FusedUnavailable

ROOT = Path(__file__).resolve().parents[2]
OLD = Path("/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1")
packaged = pytest.mark.skipif(
    sys.platform != "linux" or not list(Path(sys.prefix, "lib").glob("libLLVM*.so*")),
    reason="the package with the library is for Linux x86-64",
)


@pytest.fixture(autouse=True)
def _of_its_own(monkeypatch, tmp_path):
    """Each test with no setting, an empty cache folder, and nothing decided."""
    monkeypatch.delenv(llvm.SETTING, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    llvm._prepared.cache_clear()
    yield
    llvm._prepared.cache_clear()


@pytest.fixture
def trials(monkeypatch):
    """The libraries that were tried; all are fit unless their name says old."""
    tried = []

    def trial(library, version=""):
        tried.append(library)
        return "too old" if "old" in Path(library).name else None

    monkeypatch.setattr(llvm, "_trial", trial)
    return tried


def a_library(folder: Path, name: str = "libLLVM-99.so") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("no library")
    return path.resolve()


def run_python(code: str) -> str:
    """What the code prints in an interpreter of its own: drjit loads a library once a process."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@packaged
def test_the_library_of_the_package_is_found_and_fit():
    path = llvm.find_llvm()
    assert path.parent == Path(sys.prefix, "lib").resolve()
    assert llvm._trial(str(path)) is None


@packaged
def test_prepare_gives_a_module_that_computes():
    code = """
import sys
from jaxsim.fused.llvm import prepare
assert "drjit" not in sys.modules
types = prepare()
import drjit
x = drjit.maximum(drjit.arange(types.Float, 3), 1)
print(types.__name__, drjit.detail.llvm_version()[0] >= 17, list(x), prepare("cpu") is types)
"""
    assert run_python(code).split("\n")[0] == "drjit.llvm True [1.0, 1.0, 2.0] True"


def test_what_is_no_library_is_unfit(tmp_path):
    assert "Unable to load" in llvm.is_fit(a_library(tmp_path))
    assert "Unable to load" in llvm.is_fit(tmp_path / "nothing.so")


@pytest.mark.skipif(not OLD.exists(), reason="no old library on this machine")
def test_a_library_that_aborts_is_unfit_and_this_process_lives():
    assert "LLVM ERROR: Cannot select" in llvm.is_fit(OLD)


def test_a_trial_that_hangs_or_cannot_start_is_unfit(monkeypatch, tmp_path):
    monkeypatch.setattr(llvm, "_TRIAL", "import time; time.sleep(60)")
    monkeypatch.setattr(llvm, "TIMEOUT", 0.2)
    assert "no result after 0.2 s" in llvm.is_fit(a_library(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    assert "no child process" in llvm.is_fit(a_library(tmp_path))


def test_a_wrong_number_and_a_silent_end_are_reasons(monkeypatch):
    monkeypatch.setattr(llvm, "_TRIAL", "import sys; print('noise'); sys.exit('it computes 1')")
    assert llvm._trial("any") == "it computes 1"
    monkeypatch.setattr(llvm, "_TRIAL", "import os; os._exit(7)")
    assert llvm._trial("any") == "exit status 7"


def test_a_fit_file_is_tried_once(trials, tmp_path):
    path = a_library(tmp_path)
    assert llvm.is_fit(path) is None
    assert llvm.is_fit(path) is None
    assert trials == [str(path)]
    path.write_text("another library")
    assert llvm.is_fit(path) is None
    assert len(trials) == 2


def test_an_unfit_file_is_tried_again(trials, tmp_path):
    path = a_library(tmp_path, "old.so")
    assert llvm.is_fit(path) == llvm.is_fit(path) == "too old"
    assert len(trials) == 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"another file"])
def test_a_broken_note_is_made_anew(trials, tmp_path, content):
    path = a_library(tmp_path)
    assert llvm.is_fit(path) is None
    (note,) = (tmp_path / "cache/jaxsim/llvm").iterdir()
    note.write_bytes(content)
    assert llvm.is_fit(path) is None
    assert llvm.is_fit(path) is None
    assert len(trials) == 2


def test_a_cache_folder_that_cannot_be_written_does_not_matter(trials, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(a_library(tmp_path, "a file")))
    assert llvm.is_fit(a_library(tmp_path)) is None
    assert llvm.is_fit(a_library(tmp_path)) is None
    assert len(trials) == 2


def test_the_setting_comes_first_and_a_bare_name_is_the_loaders(trials, tmp_path, monkeypatch):
    path = a_library(tmp_path)
    for setting in (str(path), "libLLVM.so.23.1"):
        monkeypatch.setenv(llvm.SETTING, setting)
        assert str(llvm.find_llvm()) == setting
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(llvm.SETTING, "./folder/../libLLVM-99.so")
    assert llvm.find_llvm().is_absolute()


def test_an_unfit_setting_is_named_with_the_remedy(tmp_path, monkeypatch):
    path = a_library(tmp_path)
    monkeypatch.setenv(llvm.SETTING, str(path))
    with pytest.raises(FusedUnavailable) as error:
        llvm.find_llvm()
    assert f"{llvm.SETTING}={path} is unfit" in str(error.value)
    assert "Unset it, or name an LLVM library" in str(error.value)


def test_the_package_comes_before_the_system_and_new_before_old(trials, tmp_path, monkeypatch):
    beside = a_library(tmp_path / "prefix/lib", "libLLVM-18-old.so")
    system = [
        a_library(tmp_path / "usr/lib", "libLLVM.so.20.1"),
        a_library(tmp_path / "usr/lib/llvm-19/lib", "libLLVM.so.1"),
        a_library(tmp_path / "usr/lib", "libLLVM-17.so.1"),
        a_library(tmp_path / "homebrew", "libLLVM.dylib"),
    ]
    a_library(tmp_path / "usr/lib", "libLLVM-16.so.1")
    a_library(tmp_path / "usr/lib", "libLLVMgold.so")
    (tmp_path / "usr/lib/libLLVM-20.so").symlink_to(system[0])
    folders = [f"{tmp_path}/usr/lib", f"{tmp_path}/usr/lib/llvm-*/lib", f"{tmp_path}/homebrew"]
    monkeypatch.setattr(llvm, "PACKAGE", "no-such-package")
    monkeypatch.setattr(llvm, "_FOLDERS", tuple(folders))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    assert list(llvm._candidates()) == [beside, *system]
    assert llvm.find_llvm() == system[0]
    assert trials == [str(beside), str(system[0])]


def test_without_a_fit_library_the_remedies_are_named(trials, tmp_path, monkeypatch):
    candidates = [a_library(tmp_path, "old.so")]
    monkeypatch.setattr(llvm, "_candidates", lambda: candidates)
    with pytest.raises(FusedUnavailable, match=r"old\.so: too old.*pip install karellen-llvm-core"):
        llvm.find_llvm()
    candidates.clear()
    with pytest.raises(FusedUnavailable, match="found none"):
        llvm.find_llvm()


def test_without_drjit_the_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "drjit", None)
    for platform in ("cpu", "gpu"):
        with pytest.raises(FusedUnavailable, match="pip install drjit karellen-llvm-core"):
            llvm.prepare(platform)


def test_a_failure_is_decided_once(trials, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "drjit", raising=False)
    monkeypatch.setenv(llvm.SETTING, str(a_library(tmp_path, "old.so")))
    for _ in range(2):
        with pytest.raises(FusedUnavailable, match="too old"):
            llvm.prepare()
    assert len(trials) == 1


def test_an_unknown_platform_names_the_known():
    with pytest.raises(FusedUnavailable, match="'tpu'; there are cpu, gpu, cuda"):
        llvm.prepare("tpu")


def test_drjit_imported_before_is_accepted_only_with_a_fit_library(tmp_path):
    code = f"""
import os
os.environ["{llvm.SETTING}"] = {str(a_library(tmp_path))!r}
import drjit
from jaxsim.fused import llvm
try:
    llvm.prepare()
except llvm.FusedUnavailable as error:
    print(error)
"""
    assert "drjit was imported before" in run_python(code)
    if sys.platform == "linux" and (found := list(llvm._candidates())):
        fit = code.replace(repr(str(a_library(tmp_path))), repr(str(found[0])))
        assert run_python(fit + "print(llvm.prepare().__name__)") == "drjit.llvm\n"


def test_without_a_gpu_the_reason_is_told():
    code = """
from jaxsim.fused import llvm
try:
    print(llvm.prepare("gpu").__name__)
except llvm.FusedUnavailable as error:
    print(error)
"""
    assert run_python(code).startswith(("drjit.cuda", "no GPU for Dr.Jit: "))
