"""Learning about one camera from a recording, before it goes live."""
