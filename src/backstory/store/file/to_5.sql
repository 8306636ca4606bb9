-- From schema 4 to 5: a chunk may be made of bytes of another log. Nothing that is there is packed anew here.

alter table chunks add column lender integer;
create index idx_chunks_lender on chunks(lender) where lender is not null;
create table lent(
  log_id    integer not null,            -- a log that is gone, and that chunks still have as their lender
  start     integer not null,            -- as in chunks
  length    integer not null,
  sha256    blob not null,
  data      blob not null,
  primary key (log_id, start)
) without rowid;
create trigger log_lent before delete on logs when exists (select 1 from chunks where lender = old.id) begin
  insert or ignore into lent(log_id, start, length, sha256, data)
    select log_id, start, length, sha256, data from chunks where log_id = old.id and lender is null;
end;

-- What was packed as small as could be then can be made of its parent's log now.
update logs set frames = 0 where frames = -1 and instr(path, '.jsonl#') > 0;
