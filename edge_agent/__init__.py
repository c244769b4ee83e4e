"""Cameras and files in, results out: capture, gate, detection, tracking, uplink, fusion, results, status page."""
