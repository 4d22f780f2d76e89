"""The folder of a class: what learners read and cannot change.

    FOLDER/course        -> editions/HASH, replaced in one step
    FOLDER/editions/     the course as learners get it, without solutions, a folder an edition
    FOLDER/environments/ Python, its packages and the proxy, a folder for each set of versions
    FOLDER/hub/          the hub's own: database, passwords, log; only root reads it
    FOLDER/run/          sockets and logs of the learners' servers, a folder a learner

A server that runs keeps the edition it was started with; the next start takes the newest one. Files of the environment
are hard links to those of .venv where one file system holds both, so torch is stored once, and what pip later does to
.venv does not reach a class that is running.
"""

import compileall
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from teaching.classroom import environment
from teaching.classroom.accounts import ClassError

ROOT = environment.ROOT
HERE = environment.HERE
PARTS = (  # what a learner needs, beside learner notebooks and checks
    "README.md",
    "GUIDE.md",
    "LICENSE",
    "data",
    "lessons_src/lab.py",
    "lessons_src/lab_settings",
    "lessons_src/lessonkit",
    "lessons_src/fromscratch",
)


def install(folder, root=ROOT):
    """Install the course at root, and its environment, into folder; return the path of the edition."""
    folder = Path(folder)
    for path in (folder, folder / "editions", folder / "environments", folder / "run", folder / "hub"):
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / "hub").chmod(0o700)
    packages = install_environment(folder / "environments")
    files = course_files(root)
    name = _digest(packages.name, *(part for file in files for part in (file, files[file].read_bytes())))
    edition = folder / "editions" / name
    if not edition.exists():
        new = edition.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        copy(files, new)
        (new / "environment").symlink_to(packages)
        new.rename(edition)
    link = folder / "course.new"
    link.unlink(missing_ok=True)
    link.symlink_to(edition)
    link.replace(folder / "course")
    return edition


def course_files(root):
    """Return {path in the edition: file} of all that learners get."""
    files = {f"notebooks/{path.name}": path for path in sorted((root / "notebooks").glob("*.ipynb"))}
    if not files:
        raise ClassError(f"{root / 'notebooks'} holds no lesson. Build them first: make notebooks")
    for part in PARTS:
        whole = root / part
        for path in [whole] if whole.is_file() else sorted(whole.rglob("*")):
            if path.is_file() and not {"__pycache__", "solutions"} & set(path.parts):
                files[path.relative_to(root).as_posix()] = path
    for path in sorted((root / "lessons_src/lessons").glob("**/*.py")):
        if path.name in ("__init__.py", "checks.py"):
            files[path.relative_to(root).as_posix()] = path
    return files | {f"learner/{path.name}": path for path in sorted((HERE / "learner").glob("*.py"))}


def copy(files, target):
    """Put course_files into the folder target, where everybody reads and nobody but its owner changes them."""
    for file, source in files.items():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / file)
    compileall.compile_dir(target / "lessons_src", quiet=2)
    readable(target)


def install_environment(folder):
    """Put Python's packages and the proxy where learners can read them; return that folder.

    The packages come from the learners' environment, whose python runs this, and from .venv-class.
    """
    parts = [Path(sys.prefix), environment.FOLDER]
    packages = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    python = public_python()
    versions = sorted(path.name for part in parts for path in (part / packages).glob("*.dist-info"))
    target = folder / _digest(str(python), *versions)
    if (target / "ready").exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", target], check=True)
    for part in parts:
        for name in (packages, Path("share"), Path("etc"), Path("node_modules")):
            if (part / name).exists():
                shutil.copytree(
                    part / name, target / name, symlinks=True, dirs_exist_ok=True, copy_function=_link, ignore=_own
                )
    readable(target)
    run = [target / "bin/python", "-c", "import jupyterhub, jupyterlab, torch, matplotlib.font_manager"]
    fonts = target / "matplotlib"  # the list of fonts takes seconds to make; each learner gets a copy
    fonts.mkdir()
    subprocess.run(run, check=True, env={"MPLCONFIGDIR": str(fonts), "PATH": os.defpath}, cwd="/")
    readable(fonts)
    (target / "ready").touch()
    return target


def public_python():
    """Return a Python of this version that every account can run: this one, or else the system's own."""
    name = "python{}.{}".format(*sys.version_info)
    tried = [Path(sys.base_prefix, "bin", name), Path("/usr/local/bin", name), Path("/usr/bin", name)]
    for python in tried:
        if python.exists() and _for_everyone(python.resolve()):
            return python
    raise ClassError(
        f"Learners could not run Python: {tried[0]} lies in a folder that only its owner reads, and there is no other "
        f"{name}. Install one for everyone (on Debian: apt install python3-venv), remove .venv, and make class "
        "PYTHON=/usr/bin/python3."
    )


def readable(folder):
    """Let everyone read a folder and nobody but its owner change it."""
    subprocess.run(["chmod", "--recursive", "u=rwX,go=rX", folder], check=True)


def _for_everyone(path):
    return all(parent.stat().st_mode & 0o001 for parent in [path, *path.parents])


def _link(source, target):
    """Make target a hard link to source, or a copy of it on another file system. .venv-class comes last and wins."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _own(folder, names):
    """Name what points back to the repository: the package installed in place, and .venv-class's view of .venv."""
    return [name for name in names if name.startswith(("__editable__", "layernorm_from_scratch", "learners.pth"))]


def _digest(*parts):
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return whole.hexdigest()[:12]
