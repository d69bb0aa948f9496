"""Look inside transformer attention from a terminal."""
