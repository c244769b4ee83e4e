"""What stands behind ``foveate model``: listing, inspecting and quantising models."""
