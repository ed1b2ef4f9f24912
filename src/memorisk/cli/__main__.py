"""``python -m memorisk.cli``."""

import sys

from memorisk.cli.main import main

sys.exit(main())
