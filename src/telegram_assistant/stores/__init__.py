"""Adapters to the stores: each turns its engine's types and errors into ours, once."""
