"""A class on one machine: JupyterHub with an account a learner, on a copy of the course without its solutions.

__main__.py     the command: what the folder remembers, one class at a time, the hub until Ctrl-C
environment.py  .venv-class: the learners' packages, JupyterHub and its proxy
install.py      the folder of a class: editions of the course and of the environment, both read-only
accounts.py     names, Unix accounts, homes, processes
passwords.py    made, handed out, kept as hashes
ports.py        which ports of this machine are free
jupyterhub_config.py   how the hub is run: logins.py lets learners in, servers.py starts their servers
learner/        what runs as the learner: the start of a server, of a kernel, and of a save
collect.py      copies of the learners' work, taken without trusting what lies there
progress_page.py       the instructor's page, a service of the hub; progress_reader.py makes it, as class_progress
trial.py        a class that is thrown away, and many learners at once; client.py is a learner without a browser
"""
