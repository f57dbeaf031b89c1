"""A real SLURM on this machine, for as long as the tests here: a controller and two nodes, in a
folder of their own.
"""

import os
import pwd
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""


def free_ports(number: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with ExitStack() as stack:
        own = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
        return [stack.enter_context(each).getsockname()[1] for each in own]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The environment in which `srun` and `sbatch` reach two nodes, n1 and n2."""
    path = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    programs = {name: shutil.which(name, path=path) for name in PROGRAMS}
    if missing := [name for name, found in programs.items() if found is None]:
        pytest.skip(f"needs SLURM: no {', '.join(missing)}")
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pytest.skip(f"needs SLURM and a user with a name, and {os.getuid()} has none")
    folder = tmp_path_factory.mktemp("slurm")
    ports = dict(zip(("controller", "n1", "n2"), free_ports(3), strict=True))
    config, key = folder / "slurm.conf", folder / "munge.key"
    config.write_text(CONFIG.format(host=socket.gethostname(), user=user, folder=folder, **ports))
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    (folder / "state").mkdir()
    # The nodes have no addresses outside this cluster, by which the processes of a run would find
    # each other.
    prefixes = ("SLURM_", "SBATCH_", "SRUN_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    environment = own | {"SLURM_CONF": str(config), "MASTER_ADDR": "127.0.0.1"}
    munge = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    munge += ["--foreground", "--force", f"--socket={folder}/munge.socket"]
    daemons = {
        "munged": [programs["munged"], *munge],
        "slurmctld": [programs["slurmctld"], "-D"],
        "n1": [programs["slurmd"], "-D", "-N", "n1"],
        "n2": [programs["slurmd"], "-D", "-N", "n2"],
    }
    with ExitStack() as stack:
        running = {}
        for name, command in daemons.items():
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            running[name] = stack.enter_context(
                subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            )
            stack.callback(running[name].terminate)
        wait_until(lambda: states(environment) == ["idle", "idle"], folder, running)
        yield environment
        subprocess.run(["scancel", "--user", user], env=environment)  # of a test that was cut off
        wait_until(lambda: states(environment) == ["idle", "idle"], folder, running)


def wait_until(reached, folder, running) -> None:
    """A minute at most, and no longer than the daemons live."""
    deadline = time.monotonic() + 60
    while not reached():
        ended = [name for name, daemon in running.items() if daemon.poll() is not None]
        logs = {name: (folder / f"{name}.log").read_text()[-1000:] for name in ended}
        assert not ended, f"these ended: {logs}"
        assert time.monotonic() < deadline, f"the nodes are not idle; see the logs in {folder}"
        time.sleep(0.2)


def states(environment: dict[str, str]) -> list[str]:
    """What the controller says of each node."""
    command = ["sinfo", "--noheader", "--Node", "--format=%T"]
    return subprocess.run(command, capture_output=True, text=True, env=environment).stdout.split()
