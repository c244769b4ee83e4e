"""The core that edge and cloud share: values, time, channels, decisions, wire format, detectors."""
