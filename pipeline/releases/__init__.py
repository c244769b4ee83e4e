"""Releases of models: what is signed and sent, and how a file travels."""
