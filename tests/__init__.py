"""The tests; what several of them need is in ``tests/support``."""

import pytest

# A failed assertion in a shared function shows its values, as one in a test does.
pytest.register_assert_rewrite("tests.support")
