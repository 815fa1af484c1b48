#!/usr/bin/env python3
"""What a second rank is worth: two ranks on two cores against one rank on one.

Runs `spillway train` in turn, several rounds: alone on one core; two processes that do not know of
each other, a core each (what the machine can give at most: they share its memory and caches, not
their work); and two ranks under Open MPI, a core each, with the same micro-batch a rank, in several
ways to divide. One thread each. Prints medians, and medians over rounds of the ratios within a round.

    bench/fsdp_bench.py                                   # configs/run/llama_25m.yaml, shortened
    bench/fsdp_bench.py --rounds 9 --only alone,pair,fsdp
    bench/fsdp_bench.py train.micro_batch=1               # what follows goes to every run

The columns:
    step s      wall time of a step
    of alone    tokens/s of both over twice those of the process alone
    of pair     the same over the two processes that do not know of each other
    CPU s       processor time of a step, a process: hardly depends on who else uses the cores
    CPU ratio   that of the pair over it
    coll. s, exposed s    a step of rank 0: in collectives, and compute standing still for them
    others      the share of the cores that went to anybody else
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FSDP = ["parallel.data=1", "parallel.fsdp=2"]
# name, processes, whether they are ranks of one run, overrides
VARIANTS = {
    "alone": (1, False, []),
    "pair": (2, False, []),
    "fsdp": (2, True, FSDP),
    "fsdp naive": (2, True, FSDP + ["activation.latency_hiding=false",
                                    "activation.pipelined=false"]),
    "fsdp optimizer": (2, True, FSDP + ["parallel.fsdp_mode=optimizer"]),
    "data": (2, True, ["parallel.data=2"]),
}
TICK = os.sysconf("SC_CLK_TCK")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("overrides", nargs="*", metavar="key=value")
    p.add_argument("--binary", default=str(ROOT / "build/release/spillway"))
    p.add_argument("--config", default=str(ROOT / "configs/run/llama_25m.yaml"))
    p.add_argument("--cores", default="0,1", help="the two cores (default 0,1)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=5, help="of a run; the first does not count")
    p.add_argument("--only", default=",".join(VARIANTS), help="of " + ", ".join(VARIANTS))
    p.add_argument("--gb-per-s", type=float, default=3.5,
                   help="assumed for the prediction: what a rank sends (default 3.5)")
    p.add_argument("--keep", help="keep metrics and traces of the last round in this folder")
    a = p.parse_args()
    a.cores = [int(core) for core in a.cores.split(",")]
    a.only = a.only.split(",")
    for name in a.only:
        if name not in VARIANTS:
            p.error(f"--only {name}: not one of {', '.join(VARIANTS)}")
    return a


def commands(a, name, folder):
    """Command lines of one run, and the folder of each one's metrics."""
    count, ranks, overrides = VARIANTS[name]
    # Any text will do: the time of a step does not depend on it.
    common = ["data.path=" + str(ROOT / "docs/architecture.md"), "data.validation_fraction=0",
              "device.threads=1", "train.eval_every=0", f"train.steps={a.steps}",
              f"output.trace_step={a.steps - 1}"] + overrides + a.overrides
    each = []
    for i in range(count):
        out = folder / (f"rank{i}" if ranks else f"process{i}")
        out.mkdir(parents=True, exist_ok=True)
        directory = folder / "rank0" if ranks else out
        each.append((["taskset", "-c", str(a.cores[i]), a.binary, "train", a.config] + common +
                     [f"output.directory={directory}"], out))
    if not ranks:
        return each
    mpirun = ["mpirun", "--bind-to", "none", "--oversubscribe"]
    for i, (command, _) in enumerate(each):
        mpirun += ([":"] if i else []) + ["-np", "1"] + command
    return [(mpirun, folder / "rank0")]


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def busy_seconds(cores):
    """Of these cores, since the machine started; what a hypervisor took counts too."""
    total = 0
    for line in open("/proc/stat"):
        words = line.split()
        if words[0] in [f"cpu{core}" for core in cores]:
            total += sum(map(int, words[1:9])) - int(words[4]) - int(words[5])
    return total / TICK


class Watch:
    """Processor time of a run's processes between the ends of its first and last step."""

    def __init__(self, process, metrics, ranks):
        self.process, self.metrics, self.ranks = process, metrics, ranks
        self.lines, self.begin, self.end = 0, None, None

    def pids(self):
        if not self.ranks:
            return [self.process.pid]
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def look(self):
        lines = self.metrics.read_text().count("\n") if self.metrics.exists() else 0
        if lines == self.lines or lines < 2:
            return
        self.lines = lines
        try:
            now = (lines, sum(map(processor_seconds, self.pids())) / len(self.pids()))
        except (OSError, ZeroDivisionError):  # over already
            return
        self.begin, self.end = self.begin or now, now

    def per_step(self):
        if self.begin is None or self.end[0] == self.begin[0]:
            return float("nan")
        return (self.end[1] - self.begin[1]) / (self.end[0] - self.begin[0])


def run(a, name, folder):
    """Medians over the steps of one run."""
    env = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    ranks, cores = VARIANTS[name][1], a.cores[:VARIANTS[name][0]]
    began, busy = time.monotonic(), busy_seconds(cores)
    watches = []
    for command, out in commands(a, name, folder):
        log = open(out / "log", "w")
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        watches.append(Watch(process, out / "metrics.jsonl", ranks))
    own = os.times()
    while any(watch.process.poll() is None for watch in watches):
        time.sleep(0.02)
        for watch in watches:
            watch.look()
    after = os.times()
    mine = after.children_user + after.children_system - own.children_user - own.children_system
    others = (busy_seconds(cores) - busy - mine) / (time.monotonic() - began) / len(cores)
    result = {"others": max(0.0, others)}
    steps = []
    for watch in watches:
        if watch.process.returncode != 0:
            sys.exit(f"{name}: see\n" + (watch.metrics.parent / "log").read_text()[-2000:])
        records = [json.loads(line) for line in open(watch.metrics)]
        steps += [r for r in records if r["record"] == "step" and r["step"] > 0]
    for key in ("step_seconds", "collective_seconds", "exposed_collective_seconds", "sent_bytes"):
        result[key] = statistics.median(step[key] for step in steps)
    result["tokens"] = statistics.median(s["tokens_per_s_per_device"] for s in steps)
    result["cpu"] = statistics.mean(watch.per_step() for watch in watches)
    return result


def predict(rounds, gb_per_s):
    """From the pair, and the bytes sent: the ratio to the pair if nothing were hidden."""
    pair = statistics.median(one["pair"]["step_seconds"] for one in rounds)
    for name in rounds[0]:
        sent = rounds[0][name]["sent_bytes"]
        if sent:
            print(f"predicted, {name}: {sent / 1e6:.0f} MB a step at {gb_per_s} GB/s, nothing hidden: "
                  f"{1 / (1 + sent / (gb_per_s * 1e9) / pair):.3f} of pair")


def table(rounds):
    def median(name, key):
        return statistics.median(one[name][key] for one in rounds)

    def ratio(name, key, of):
        values = sorted(one[name][key] / one[of][key] for one in rounds)
        return f"{statistics.median(values):.3f} ({values[0]:.2f}-{values[-1]:.2f})"

    print(f"{'':22}{'step s':>8} {'of alone':>18} {'of pair':>18} {'CPU s':>7} {'CPU ratio':>10} "
          f"{'coll. s':>8} {'exposed s':>10} {'others':>7}")
    for name in rounds[0]:
        against = [ratio(name, "tokens", of) if of in rounds[0] and name not in ("alone", of) else "-"
                   for of in ("alone", "pair")]
        cpu = "-"
        if "pair" in rounds[0] and name != "pair":
            cpu = f"{statistics.median(o['pair']['cpu'] / o[name]['cpu'] for o in rounds):.3f}"
        print(f"{name:22}{median(name, 'step_seconds'):8.3f} {against[0]:>18} {against[1]:>18} "
              f"{median(name, 'cpu'):7.3f} {cpu:>10} {median(name, 'collective_seconds'):8.3f} "
              f"{median(name, 'exposed_collective_seconds'):10.3f} {median(name, 'others'):7.0%}")


def rounds_of(a, temporary):
    """Ratios are taken within a round: one that did not end does not count."""
    for i in range(a.rounds):
        # Every other round backwards: a drift of the machine favours nobody.
        names = a.only if i % 2 == 0 else a.only[::-1]
        last = a.keep and i == a.rounds - 1
        folder = pathlib.Path(a.keep if last else f"{temporary}/{i}").absolute()
        done = {name: run(a, name, folder / name.replace(" ", "_")) for name in names}
        print(f"round {i + 1}, load {os.getloadavg()[0]:.1f}: " + ", ".join(
            f"{name} {done[name]['step_seconds']:.3f} s" for name in a.only),
            file=sys.stderr, flush=True)
        yield {name: done[name] for name in a.only}


def main():
    a = parse()
    rounds = []
    with tempfile.TemporaryDirectory() as temporary:
        try:
            for one in rounds_of(a, temporary):
                rounds.append(one)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
    if not rounds:
        return
    if "pair" in a.only:
        predict(rounds, a.gb_per_s)
    table(rounds)


if __name__ == "__main__":
    main()
