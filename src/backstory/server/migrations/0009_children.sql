-- The sessions that come from one, for who reads that.
create index derivation_of_parent on derivation (tenant, person, parent) where parent is not null;
