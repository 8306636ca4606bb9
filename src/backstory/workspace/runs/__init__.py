"""Agents at work for a session: prompts, their queue, summaries, and the events that faces draw."""
