"""The faults of the past can still be put back: each is a patch that fits the code."""

from __future__ import annotations

import re
import shutil

import pytest

from maintenance.faults import Fault, faults

from .processes import ROOT

FAULTS = faults()


def test_there_are_fifty_faults():
    assert len(FAULTS) >= 50


@pytest.mark.process
@pytest.mark.skipif(shutil.which("git") is None, reason="Git applies the patches")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_code_and_names_tests_that_exist(fault: Fault):
    assert fault.tests
    for test in fault.tests:
        path, _, name = test.partition("::")
        name = re.sub(r"\[.*", "", name).rpartition("::")[2]
        assert re.search(rf"^ *(async )?def {name}\b", (ROOT / path).read_text(), re.MULTILINE)
    assert fault.applies(ROOT), "adapt the patch: `python -m maintenance.faults` has to find it"
