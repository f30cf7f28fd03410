"""Operations on sensors and events: mute, acknowledge, accept, name, reset, forget."""
