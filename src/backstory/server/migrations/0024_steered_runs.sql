-- A message is for the run that its sender saw, and for none that follows it.
alter table steering add column run text not null default '';
