"""Screens: the main one and its dialogs."""
