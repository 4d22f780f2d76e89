"""The settings of a learner's JupyterLab."""

import os
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
c = get_config()  # noqa: F821 - there in every configuration file of Jupyter
c.LabApp.app_settings_dir = str(COURSE / "lessons_src/lab_settings")
c.LabApp.extra_labextensions_path = [str(COURSE / "lessons_src/lab_settings")]
c.ContentsManager.hide_globs.extend(["attempts.jsonl", "inventory.jsonl", "mine"])
c.LabApp.news_url = ""
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.ServerApp.jpserver_extensions = {"jupyterlab_jupytext": False}
# Over TCP the ports that two kernels choose at the same moment can be the same one.
c.KernelManager.transport = "ipc"
c.MappingKernelManager.cull_idle_timeout = int(os.environ["CLASS_IDLE"])
c.FileContentsManager.pre_save_hook = "disk_room.keep_room"
# Which notebooks are trusted is kept in memory: with a file, opening one on a full disk would fail.
c.NotebookNotary.db_file = ":memory:"
c.NotebookNotary.secret = b"in-memory"
