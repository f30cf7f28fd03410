"""What every HTTP port of the service has: limits on connections, checks of hosts, origins and tokens."""
