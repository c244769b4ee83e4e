"""A camera learns: lessons in, a trained and judged model out, released and watched."""
