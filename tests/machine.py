"""The reader of lessons under its former name, for tests/banks/clinic.py alone."""

from coursebuild import source as machine  # noqa: F401
from tests.helpers import ROOT, SOURCES  # noqa: F401
