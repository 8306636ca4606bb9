-- A search reads the index of words, however few rows an organisation has in a month: what it costs to unpack the words of
-- each row, to look into them, is not among what the database reckons with.

set local role backstory_search;
alter function sessions_with(bigint, text[], tsquery, tsquery, text, bigint, text, text, text, timestamptz, timestamptz,
  text, timestamptz, text, bigint, text, int, bigint) set cpu_operator_cost = 1;
reset role;
