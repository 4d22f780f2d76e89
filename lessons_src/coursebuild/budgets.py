"""How long a lesson may take: its cells, in seconds on two cores without a GPU, and a learner, in minutes."""

BUDGET = {"lesson": 30, "cell": 10, "training lesson": 90, "training cell": 30, "first output": 4}
MINUTES = {"lesson": 60, "sitting": 35}  # of its core, by the model of minutes.py
TRAINING = ("09", "10", "11")  # the lessons that train while one watches
TIMEOUT = 600  # a cell that runs longer than this is stopped, and its lesson is not built


def budget(number):
    """Return {what is limited: seconds} for the lesson of a number, "09"."""
    kind = "training " if number in TRAINING else ""
    return {"lesson": BUDGET[f"{kind}lesson"], "cell": BUDGET[f"{kind}cell"], "first output": BUDGET["first output"]}
