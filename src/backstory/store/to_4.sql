-- How full a session's context is, and what its summaries took. Nothing of either is known of what is there already.
alter table sessions add column context_chars integer;
alter table sessions add column context_limit integer;
alter table compactions add column model text;
alter table compactions add column input_tokens integer;
alter table compactions add column output_tokens integer;
alter table compactions add column cache_read_tokens integer;
alter table compactions add column cache_write_tokens integer;
alter table compactions add column cost_usd real;
alter table compactions add column duration_ms integer;
create trigger context_turn after insert on turns begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger context_turn_changed after update of first_seq, last_seq, parent_uid, parent_seq, removed on turns
when new.first_seq is not old.first_seq or new.last_seq is not old.last_seq or new.parent_uid is not old.parent_uid
  or new.parent_seq is not old.parent_seq or new.removed is not old.removed begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger context_leaf after update of leaf_uid, leaf_seq on sessions
when new.leaf_uid is not old.leaf_uid or new.leaf_seq is not old.leaf_seq begin
  update sessions set context_chars = null where id = new.id;
end;
create trigger context_summary after insert on compactions begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger context_summary_changed after update of after_seq, summary, undone on compactions begin
  update sessions set context_chars = null where id = new.session_id and context_chars is not null;
end;
create trigger context_summary_gone after delete on compactions begin
  update sessions set context_chars = null where id = old.session_id and context_chars is not null;
end;
