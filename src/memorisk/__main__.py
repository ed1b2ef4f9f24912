"""``python -m memorisk``."""

import sys

from memorisk.cli.start import main

sys.exit(main())
