"""A fleet on virtual time: the real decision code, recorded frames, measured service times."""
