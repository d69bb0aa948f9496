"""Trained recovery: linear maps and MLPs from hidden states back to their tokens."""
