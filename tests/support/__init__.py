"""What several test modules need: functions and values, no fixtures and no tests."""
