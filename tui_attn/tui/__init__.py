"""The screen, on textual. It sees a session only through `answers.Inspector`."""
