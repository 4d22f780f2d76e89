"""Functions as data, from the grader to an observer: numba, which the lessons need, carries the library for that.

Of a function that stays outside, a Far arrives, by which an answer can call it: arguments and results are plain data.
"""

import importlib.util
import sys
from pathlib import Path


def code_by_value():
    """Return the library cloudpickle, loaded under a name that both sides know, and without the rest of numba."""
    folder = Path(importlib.util.find_spec("numba").origin).parent / "cloudpickle"
    spec = importlib.util.spec_from_file_location("cloudpickle", folder / "__init__.py")
    sys.modules["cloudpickle"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["cloudpickle"])
    return sys.modules["cloudpickle"]


class Far:
    """Makes functions that are called outside, through ask(request) -> (result, error)."""

    ask = None

    @staticmethod
    def function(number, name):
        def call(*args, **kwargs):
            result, error = Far.ask({"call": number, "arguments": args, "keywords": kwargs})
            if error is not None:
                raise error
            return result

        call.__name__ = call.__qualname__ = name
        return call
