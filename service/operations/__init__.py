"""What people do with sensors and events: mute, acknowledge, accept, name, reset, forget."""
