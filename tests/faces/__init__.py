"""Two faces that stand on a workspace's reader alone: what they need, every face has."""
