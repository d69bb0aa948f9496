"""What each command does, after the command line was read: one module a kind."""
