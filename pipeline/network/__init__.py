"""A network as a value: how long what is sent takes, from a seed and the time alone. Nothing here waits or sends."""
