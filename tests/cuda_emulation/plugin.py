"""pytest -p tests.cuda_emulation.plugin: every fused function runs as a kernel for CUDA."""

import shutil

import pytest

from tests.cuda_emulation import kit


def pytest_configure(config):
    if reason := kit.missing():
        pytest.exit(f"skipped, nothing was tested: no CUDA emulation, for {reason}", returncode=0)
    folder = kit.prepare()
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    kit.emulate()
