"""Numerics that know no statistics."""
