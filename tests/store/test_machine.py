"""Any order of changes leaves a store as a plain dict would be, and one that is exported as what an import takes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.support.store_machine import ExportMachine, StoreMachine

TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


TestExportMachine = pytest.mark.slow(ExportMachine.TestCase)
TestExportMachine.settings = settings(
    max_examples=4, stateful_step_count=8, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
