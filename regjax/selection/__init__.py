"""Choosing the strength of regularization."""
