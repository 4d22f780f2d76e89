"""Run by each kernel that `make lab` starts, before its first cell: says how to come back to a lesson.

In a new kernel nothing of the lesson has been run, and the first name that is missing would show as a traceback.
"""


def _first_cells_are_missing():
    try:
        shell = get_ipython()  # noqa: F821 - there in every kernel
    except NameError:
        return

    def handler(shell, kind, error, traceback, tb_offset=None):
        if "torch" in shell.user_ns:  # lesson 0, which imports no lessonkit, has begun: the name is wrong
            shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)
            return None
        lines = [
            f"`{error.name}` is not known: this kernel is new, and the cells above have not been run in it.",
            "Choose Kernel ▸ Restart Kernel and Run up to Selected Cell… in the menu; your answers are kept.",
        ]
        shell._showtraceback(kind, error, lines)
        return lines

    shell.set_custom_exc((NameError,), handler)  # until the lesson's first cell imports lessonkit, which knows more


_first_cells_are_missing()
del _first_cells_are_missing
