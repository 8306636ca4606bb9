-- Who made an invitation: it ends when they may not make any more. Those from before are of nobody.
alter table invite add maker bigint;
