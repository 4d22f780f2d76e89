"""Make .venv-class: JupyterHub and its proxy beside the learners' .venv, whose packages it sees and does not repeat.

python -m teaching.classroom.environment      (make class and make test-teaching do it)
"""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / ".venv-class"


def make():
    """Install JupyterHub and the proxy into FOLDER. Run by the learners' python, whose packages the hub may use."""
    if not shutil.which("npm"):
        sys.exit("JupyterHub's proxy needs Node.js, and there is no npm on the PATH. On Debian: apt install nodejs npm")
    venv.create(FOLDER, with_pip=False)
    packages = FOLDER / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    # pip, run from here, finds torch and JupyterLab installed already, and leaves them where they are.
    (packages / "learners.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    pip = [FOLDER / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", HERE / "requirements.txt"], check=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, FOLDER / name)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=FOLDER, check=True)


if __name__ == "__main__":
    try:
        make()
    except subprocess.CalledProcessError as error:
        sys.exit(f"Setting up {FOLDER.name} failed, see above: {' '.join(map(str, error.cmd))}")
