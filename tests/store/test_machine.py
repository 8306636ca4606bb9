"""Any order of changes leaves a store as a plain dict would be."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.support.store_machine import StoreMachine

TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
