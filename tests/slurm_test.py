#!/usr/bin/env python3
"""Trains under a Slurm of its own: srun, the batch script, and what happens when a rank dies.

    slurm_test.py SPILLWAY MPIRUN

Starts munged, slurmctld and slurmd on this machine in a temporary folder, and ends them. Exit status 77,
with the reason: skipped, as the packages are missing (scripts/install --tests) or Slurm does not start here.
"""

import contextlib
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77
RANKS = 4

CONFIG = """\
model: {family: llama, vocab_size: 256, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2,
        num_attention_heads: 4, num_key_value_heads: 2}
train: {steps: 4, micro_batch: 1, seq_len: 32, global_batch: 8, log_every: 1}
schedule: {kind: cosine, learning_rate: 1e-2}
device: {hbm_gib: 0.25, host_gib: 0.25, threads: 1}
data: {kind: synthetic}
parallel: {fsdp: 4}
"""

# No cgroups, no systemd, no accounting; as many CPUs as there are ranks, whatever the machine has.
SLURM_CONF = """\
ClusterName=spillway
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
ReturnToService=2
SlurmctldPort={controller_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={ranks} Boards=1 SocketsPerBoard=1 \
CoresPerSocket={ranks} ThreadsPerCore=1 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Skip(Exception):
    pass


def require(truth, what, output=""):
    if not truth:
        raise AssertionError(f"{what}\n{output}")


def tool(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Skip(f"no {name} here: scripts/install --tests")
    return found


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_for(seconds, truth):
    end = time.monotonic() + seconds
    while not truth():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Slurm:
    """A cluster of one node, this machine. Everything is below `folder`; `environment` leads to it."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        self.conf = folder / "slurm.conf"
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "PMI"))}
        self.environment = clean | {"SLURM_CONF": str(self.conf), "OMP_WAIT_POLICY": "passive"}

    def start(self):
        for name in ("munge", "spool", "state"):
            (self.folder / name).mkdir(mode=0o755)
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        ports = free_ports(2)
        self.conf.write_text(SLURM_CONF.format(
            host=socket.gethostname().partition(".")[0], user=getpass.getuser(), folder=self.folder,
            controller_port=ports[0], node_port=ports[1], ranks=RANKS))
        munge = self.folder / "munge"
        self.daemon(tool("munged"), "--foreground", "--force", f"--key-file={key}",
                    f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
                    f"--log-file={munge}/log")
        if not wait_for(10, (munge / "socket").exists):
            raise Skip(f"munged does not start: {self.said('munged')}")
        self.daemon(tool("slurmctld"), "-D", "-f", self.conf)
        self.daemon(tool("slurmd"), "-D", "-f", self.conf)
        if not wait_for(20, lambda: self.run("sinfo", "-h", "-o", "%T")[1].strip() == "idle"):
            raise Skip(f"Slurm does not start: {self.said('slurmctld')}{self.said('slurmd')}")

    def daemon(self, path, *arguments):
        """One that ends with this process, even when that is killed."""
        command = [tool("setpriv"), "--pdeathsig", "TERM", path, *arguments]
        with (self.folder / f"{Path(path).name}.out").open("wb") as log:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=subprocess.STDOUT, env=self.environment))

    def said(self, daemon):
        return (self.folder / f"{daemon}.out").read_text(errors="replace")[-1500:]

    def run(self, *command, seconds=60):
        """(exit status, output) of a command that finds this cluster."""
        with subprocess.Popen([str(word) for word in command], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as process:
            try:
                output = process.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                return 124, process.communicate()[0]
            return process.returncode, output

    def processes(self):
        """Everything that runs with this cluster's environment: daemons, steps, ranks."""
        mark, found = f"SLURM_CONF={self.conf}".encode(), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def stop(self):
        """Jobs first, or their steps would outlive the daemons."""
        if len(self.daemons) == 3:
            self.run("scancel", "--user", getpass.getuser(), seconds=10)
            wait_for(10, lambda: not self.run("squeue", "-h", seconds=10)[1].strip())
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def losses(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(r["loss"], r["grad_norm"]) for r in records if r["record"] == "step"]


class Test:
    def __init__(self, slurm, program, mpirun):
        self.slurm, self.program, self.mpirun, self.folder = slurm, program, mpirun, slurm.folder
        self.config = slurm.folder / "run.yaml"
        self.config.write_text(CONFIG)

    def train(self, output, *overrides):
        return ["train", self.config, f"output.directory={self.folder / output}", *overrides]

    def srun(self, *arguments, protocol="pmix", **options):
        return self.slurm.run("srun", "-n", RANKS, f"--mpi={protocol}", "--kill-on-bad-exit=1", self.program,
                              *arguments, **options)

    def srun_has_the_bits_of_mpirun(self):
        status, output = self.slurm.run(
            "env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", self.mpirun,
            "--oversubscribe", "-n", RANKS, self.program, *self.train("mpirun"))
        require(status == 0, f"mpirun: exit status {status}", output)
        status, output = self.srun(*self.train("srun"))
        require(status == 0, f"srun: exit status {status}", output)
        require(output.count("4 ranks: fsdp 4; engine: Open MPI v") == 1, "one engine", output)
        self.expect_bits("srun")

    def expect_bits(self, output):
        expected = losses(self.folder / "mpirun")
        require(len(expected) == 4, "four steps under mpirun")
        got = losses(self.folder / output)
        require(got == expected, f"{output}: losses and norms {got}, under mpirun {expected}")

    def submit(self, output, *overrides):
        """The number of a job of the batch script, whose log is OUTPUT.log."""
        status, job = self.slurm.run(
            "env", f"SPILLWAY={self.program}", "sbatch", "--parsable", f"--ntasks-per-node={RANKS}",
            f"--output={self.folder / output}.log", ROOT / "scripts" / "launch_slurm.sbatch",
            *self.train(output, *overrides)[1:])
        require(status == 0, f"sbatch: exit status {status}", job)
        return job.strip()

    def end_of(self, job, output):
        """(log, what Slurm says of the job, seconds), when it has ended."""
        start = time.monotonic()
        ended = wait_for(60, lambda: not self.slurm.run("squeue", "-h")[1].strip())
        seconds = time.monotonic() - start
        log = (self.folder / f"{output}.log").read_text(errors="replace")
        require(ended, "the job ends", log[-3000:])
        return log, self.slurm.run("scontrol", "show", "job", job)[1], seconds

    def the_batch_script_trains(self):
        log, job, _ = self.end_of(self.submit("sbatch"), "sbatch")
        require("JobState=COMPLETED" in job, "the job is completed", log + job)
        require("4 ranks on 1 nodes" in log and "1 threads each, pmix" in log, "the layout is said", log)
        self.expect_bits("sbatch")

    def without_pmi_it_is_an_error(self):
        status, output = self.srun(*self.train("none"), protocol="none")
        require(status not in (0, 124), f"srun --mpi=none: exit status {status}", output)
        require('direct launched using "srun"' in output, "Open MPI says why", output)
        require(not (self.folder / "none").exists(), "nothing trains alone", output)

    def rank(self, number):
        mark = f"SLURM_PROCID={number}".encode()
        for process in self.slurm.processes():
            with contextlib.suppress(OSError):
                entry = Path("/proc") / str(process)
                if (entry / "exe").resolve() == Path(self.program).resolve() and \
                        mark in (entry / "environ").read_bytes().split(b"\0"):
                    return process
        raise AssertionError(f"there is no rank {number}")

    def wait_for_steps(self, output):
        metrics = self.folder / output / "metrics.jsonl"
        require(wait_for(30, lambda: metrics.exists() and metrics.read_text().count("\n") > 2), "it trains")

    def a_killed_rank_ends_all(self):
        command = ["srun", "-n", RANKS, "--mpi=pmix", "--kill-on-bad-exit=1", self.program,
                   *self.train("killed", "train.steps=1000000")]
        with subprocess.Popen([str(word) for word in command], cwd=self.folder, text=True, errors="replace",
                              env=self.slurm.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as running:
            try:
                self.wait_for_steps("killed")
                start = time.monotonic()
                os.kill(self.rank(2), signal.SIGKILL)
                output = running.communicate(timeout=30)[0][-3000:]
            except BaseException:
                running.kill()
                raise
        seconds = time.monotonic() - start
        print(f"  {seconds:.2f} s")
        require(running.returncode != 0 and seconds < 10,
                f"exit status {running.returncode} after {seconds:.1f} s", output)
        require(re.search(r"task 2: Killed", output), "srun names the rank", output)
        self.expect_no_rank()

    def an_interrupt_ends_behind_a_step(self):
        job = self.submit("interrupted", "train.steps=1000000")
        self.wait_for_steps("interrupted")
        self.slurm.run("scancel", "--signal=INT", job)
        log, job, seconds = self.end_of(job, "interrupted")
        print(f"  {seconds:.2f} s")
        require("ExitCode=130:0" in job and seconds < 10, f"after {seconds:.1f} s", log[-3000:] + job)
        last = len(losses(self.folder / "interrupted")) - 1
        require(log.count(f"interrupted: stopped after step {last}\n") == 1, "once", log[-3000:])
        self.expect_no_rank()

    def expect_no_rank(self):
        def exists(rank):
            with contextlib.suppress(AssertionError):
                return self.rank(rank)
        require(wait_for(5, lambda: not any(exists(rank) for rank in range(RANKS))), "no rank is left")


def main(program, mpirun):
    if not mpirun:
        raise Skip("this build has no MPI")
    for name in ("srun", "sbatch", "sinfo", "scancel", "scontrol", "squeue"):
        tool(name)
    with tempfile.TemporaryDirectory(prefix="spillway_slurm_") as name:
        slurm = Slurm(Path(name))
        try:
            slurm.start()
            if "pmix" not in slurm.run("srun", "--mpi=list")[1]:
                raise Skip("this Slurm has no PMIx")
            test = Test(slurm, program, mpirun)
            for part in (test.srun_has_the_bits_of_mpirun, test.the_batch_script_trains,
                         test.without_pmi_it_is_an_error, test.a_killed_rank_ends_all,
                         test.an_interrupt_ends_behind_a_step):
                start = time.monotonic()
                part()
                print(f"ok: {part.__name__}, {time.monotonic() - start:.1f} s", flush=True)
        finally:
            slurm.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    except AssertionError as failure:
        sys.exit(f"failed: {failure}")
