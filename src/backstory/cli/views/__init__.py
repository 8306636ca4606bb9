"""Lines for terminals and other readers: sessions, events, calls, sums, reports; and the choices among them."""
