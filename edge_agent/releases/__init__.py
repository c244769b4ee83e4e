"""Models that come to the agent while it runs: received, proven, put in place, judged, taken back."""
