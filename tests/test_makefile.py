"""What a machine lacks is a printed line that says what to install."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest

from .processes import ROOT

pytestmark = pytest.mark.process


@pytest.fixture
def make(tmp_path):
    """Runs a target with a Python that refuses some of its arguments, as if it lacked them."""

    def run(target: str, refused: str) -> subprocess.CompletedProcess[str]:
        python = tmp_path / "python3"
        python.write_text(
            f'#!/bin/sh\ncase "$*" in {refused}) exit 1;; esac\nexec {sys.executable} "$@"\n'
        )
        python.chmod(python.stat().st_mode | stat.S_IEXEC)
        command = ["make", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}", target]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("module", ["sqlite3", "ssl", "venv"])
@pytest.mark.parametrize("target", ["demo", "test"])
def test_a_python_without_a_module_is_named_with_what_to_install(make, target, module):
    done = make(target, f"*'import {module}'*")
    assert done.returncode != 0
    assert f"has no module {module}: install its system package" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_without_pip_is_named_with_what_to_install(make, tmp_path):
    # Debian's Python makes no environment with a pip of its own, either.
    done = make("demo", f"*'-m pip'*|'-m venv {tmp_path / 'venv'}'")
    assert done.returncode != 0
    assert "has no pip: install its system package (Debian: python3-pip)" in done.stderr


def test_no_python_that_is_new_enough_is_said(tmp_path):
    done = subprocess.run(
        ["make", "PYTHON=", f"VENV={tmp_path / 'venv'}", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Python 3.11 or newer was not found: install it" in done.stderr
