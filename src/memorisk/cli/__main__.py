"""``python -m memorisk.cli``."""

import sys

from memorisk.cli.start import main

sys.exit(main())
