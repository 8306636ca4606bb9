-- What can be rebuilt from ground truth. No trigger touches it: a SQLite without contentless-delete FTS5
-- must still be able to delete a session. Rows of the index without an event are skipped by search.

create table turn_texts(
  turn_id integer primary key references turns(id) on delete cascade,
  answer  text not null                  -- the last thing the model said in the turn
);

create virtual table search_index using fts5(
  content,                               -- the searchable text of one event; rowid = events.id
  session_id unindexed,                  -- sessions.id
  source_type unindexed,                 -- NULL: an event
  source_id unindexed,                   -- the record's number in the session
  scope unindexed,                       -- prompt | answer | thinking | tool_input | tool_output | system
  content='', contentless_delete=1, contentless_unindexed=1,
  tokenize="unicode61 remove_diacritics 2"
);
