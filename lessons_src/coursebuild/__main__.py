"""Run the command line: python -m coursebuild."""

import sys

from coursebuild.command import main

sys.exit(main())
