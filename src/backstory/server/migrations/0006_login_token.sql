-- The token that a machine came in by: a request that comes twice finds the one, also while it is being made.
alter table login drop came, add token text;
