"""Reports from history: values computed from what a ``Reader`` returns, without a model and without a clock."""
