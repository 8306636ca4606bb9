-- The rights that who waits asks for, and once approved has. None: those of a machine.
alter table login add scopes text[];
