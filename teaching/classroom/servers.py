"""A learner's server: the learner's own Unix account, on the edition that is newest when it starts, within limits."""

import asyncio
import contextlib
import ctypes
import os
import resource
import shutil
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Dict, Unicode

from teaching.classroom import accounts, ports

PROCESSES = 512  # processes and threads of one learner; a server and five kernels have about 150
LARGEST = 1 << 30  # bytes of a file, its log among them
SHARED = 64 << 20  # bytes in /dev/shm, and as many in System V's segments, which no other limit counts
TERMINALS = 64
FILES = 4096  # open ones of a process
SOCKETS = 1000  # of one learner, once the machine's ports are scarce; a server and five kernels have 140
TRIES = 3  # ports that are tried until nobody else listens there
ROOM = 1 << 20  # bytes that a server needs for its sockets, and a new account for its home


class NotStarted(Exception):
    """A server was not started; JupyterHub shows this message on its page."""

    def __init__(self, message):
        super().__init__(message)
        self.jupyterhub_message = message


def _own_devices():
    """Give this process a little shared memory and few terminals of its own, if the hub may; it sees later mounts.

    One learner could take all terminals of the machine, so that nobody else could log in. System V's segments would
    outlive their processes; in a namespace of its own they end with the last of these.
    """
    mounts, segments, follows, no_programs, kernel = 0x20000, 0x8000000, 1 << 14 | 1 << 19, 2 | 4, ctypes.CDLL(None)
    if kernel.unshare(mounts) == 0 and kernel.mount(b"none", b"/", None, follows, None) == 0:
        kernel.mount(b"tmpfs", b"/dev/shm", b"tmpfs", no_programs, b"mode=1777,size=%d" % SHARED)
        kernel.mount(b"devpts", b"/dev/pts", b"devpts", no_programs, b"ptmxmode=666,mode=620,max=%d" % TERMINALS)
    if kernel.unshare(segments) == 0:
        with contextlib.suppress(OSError):  # /proc/sys can be read-only in a container
            Path("/proc/sys/kernel/shmall").write_text(str(SHARED // resource.getpagesize()))


class ClassSpawner(LocalProcessSpawner):
    folder = Unicode(help="the folder of the class", config=True)
    settings = Dict(help="what the class is run with", config=True)
    port_of = {}  # by name; until the server listens at its port, the system would give it to another one, too
    told = set()  # names that were told what is wrong with their home: the next time their server starts, to make room

    async def start(self):
        """Make what the server needs, and start it. What runs in a terminal or a kernel finds the same edition."""
        name, folder, homes = self.user.name, Path(self.folder), self.settings["homes"]
        new = name not in accounts.members(self.settings["group"])
        for disk in (folder / "run", *([Path(homes)] if new else [])):
            if shutil.disk_usage(disk).free < ROOM:
                raise NotStarted(f"The disk of {disk} is full, so no server can start. Tell your instructor.")
        self.edition = (folder / "course").resolve()
        self.account = accounts.ensure(self.settings["group"], name, homes)
        self.runtime = folder / "run" / name  # not in the home: sockets must work on a full disk
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.runtime, self.account.pw_uid, self.account.pw_gid)
        python = str(self.edition / "environment/bin/python")
        await self.prepare_home(python)
        # As the learner; the hub's log is the hub's.
        own = 'mkdir -p "$TMPDIR"; exec "$0" "$@" >"$JUPYTER_RUNTIME_DIR/server.log" 2>&1'
        self.cmd = ["sh", "-c", own, python, "-m", "jupyterhub.singleuser"]
        self.args = [f"--config={self.edition / 'learner/server_config.py'}"]
        for _ in range(TRIES):
            try:
                self.port = self.port_of[name] = ports.free_port(self.port_of.values())
            except OSError:
                raise NotStarted(
                    "All ports of this machine are taken. Start your server again in a minute, and tell your "
                    "instructor if that does not help."
                ) from None
            address = await super().start()
            if await self.is_the_learner_s(self.port):
                return address
            await self.stop(now=True)
        raise NotStarted("Somebody else's program took your server's port. Tell your instructor: hub.log names it.")

    async def poll(self):
        """Return None while the server runs. Who takes the machine's ports, which no limit counts, is ended.

        Without ports no page opens, so that nobody could say so or be told.
        """
        status = await super().poll()
        if status is None and ports.are_scarce():
            held = await asyncio.to_thread(ports.sockets, self.account.pw_uid)
            if held > SOCKETS:
                self.log.error("%s: all programs were ended, for they held %s sockets", self.user.name, held)
                await asyncio.to_thread(accounts.end_processes, [self.account])
                return await super().poll()
        return status

    async def is_the_learner_s(self, port):
        """Wait until somebody listens at the port; return whether it is the learner alone, or the server has ended.

        The port was free when it was chosen. Whoever takes it before the server does would get what its owner sends.
        """
        while await self.poll() is None:
            if await self.answers(port) and (users := ports.listeners(port)):
                if others := users - {self.account.pw_uid}:
                    self.log.error("%s: somebody else listens at its port, the user %s", self.user.name, min(others))
                return not others
            await asyncio.sleep(0.1)
        return True

    async def answers(self, port):
        """Return whether anybody listens at the port. To ask whose it is takes the system far longer."""
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    async def prepare_home(self, python):
        """Bring the lessons that are missing, as the learner; NotStarted if there is no room, the first time."""
        program = await asyncio.create_subprocess_exec(
            python,
            str(self.edition / "learner/prepare_home.py"),
            env=self.get_env(),
            preexec_fn=self.make_preexec_fn(self.user.name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        first, errors = [text.decode(errors="replace").strip() for text in await program.communicate()]
        if errors:
            self.log.error("%s: %s", self.user.name, errors)
        if first:
            self.default_url = f"/lab/tree/work/{first}"
        if program.returncode and self.user.name not in self.told:
            self.told.add(self.user.name)
            raise NotStarted(errors)
        self.told.discard(self.user.name)

    def make_preexec_fn(self, name):
        become = super().make_preexec_fn(self.account.pw_name)
        memory = int(self.settings["memory"] * 2**30)
        no_new_privileges = 38  # cron, su or newuidmap would start programs that outlive the server or its limits

        def preexec():
            _own_devices()
            become()
            ctypes.CDLL(None).prctl(no_new_privileges, 1, 0, 0, 0)
            resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        return preexec

    def user_env(self, env):
        return env | {
            "USER": self.account.pw_name,
            "LOGNAME": self.account.pw_name,
            "HOME": self.account.pw_dir,
            "SHELL": self.account.pw_shell,
            "PATH": f"{self.edition / 'environment/bin'}:{os.defpath}",
            "PYTHONPATH": f"{self.edition / 'lessons_src'}:{self.edition / 'learner'}",
            "PYTHONSTARTUP": str(self.edition / "learner/before_first_cell.py"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.runtime / "tmp"),  # in /tmp another learner could have made torchinductor_class-mara
            "IPYTHONDIR": str(self.runtime / "ipython"),
            "LESSON_WORK": f"{self.account.pw_dir}/work",
            "LESSON_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "CLASS_COURSE": str(Path(self.folder) / "course"),
            "CLASS_IDLE": f"{self.settings['idle'] * 60:.0f}",
            "CLASS_MEMORY": str(int(self.settings["memory"] * 2**30)),
        }

    async def run_post_stop_hook(self):
        """End what the server has left behind, a program in a session of its own for example."""
        if account := accounts.members(self.settings["group"]).get(self.user.name):
            await asyncio.to_thread(accounts.end_processes, [account])
