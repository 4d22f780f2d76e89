"""A class on one machine: JupyterHub with an account a learner, on a copy of the course without its solutions.

    make class ARGS="--learners names.txt"        (as root; teaching/classroom/README.md)

environment.py   .venv-class: the learners' packages, JupyterHub and its proxy
install.py       the folder of a class: editions of the course and of the environment, both read-only
accounts.py      names, Unix accounts, homes, processes
passwords.py     made, kept as hashes; who waits after wrong ones
jupyterhub_config.py   how the hub is run; logins.py, servers.py: logging in, a learner's server
progress_page.py, class_page.py   the instructor's page, a service of the hub; the part that runs as class_progress
collect.py       copies of the learners' work, taken without trusting what lies there
load.py          many learners at once, as a test
learner/         what runs as the learner: the start of a server, of a kernel, and of a save
"""
