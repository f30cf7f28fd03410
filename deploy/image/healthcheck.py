"""Ends with 0 while the service in this container is alive. HEALTH_URL says where to ask (default: a worker's port)."""

import os
import sys
import urllib.request

try:
    with urllib.request.urlopen(os.environ.get("HEALTH_URL", "http://127.0.0.1:9108/healthz"), timeout=4):
        pass
except OSError as error:
    sys.exit(str(error))
