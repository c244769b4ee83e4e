"""The larger model behind MQTT: admission, earliest deadline first, dynamic batching."""
