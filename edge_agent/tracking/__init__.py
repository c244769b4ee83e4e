"""Tracks: constant-velocity Kalman filters, two-threshold association, and history that late answers can correct."""
