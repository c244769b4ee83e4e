"""Training a camera's own model. Needs the extra `train`; nothing but its own process imports it."""
