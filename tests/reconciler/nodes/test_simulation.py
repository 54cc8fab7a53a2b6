"""Many lives of a small cluster whose nodes are provisioned, with kills at every boundary: what must never
happen never does, and in the end all is as the documents say."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from providers.fake_provisioner import NodeFault
from reconciler.values.plan import Plan
from reconciler.values.results import ApplyEvent
from schemas.problems.errors.plan import StalePlan
from schemas.problems.errors.store import LeaseHeld
from tests.reconciler.lab import session
from tests.reconciler.nodes.lab import NodeLab, profile
from tests.simulation.engine import Fate, Killed, MortalStore, SeededRunner
from tests.simulation.invariants import Violation, live, nothing_doubled, nothing_given_twice

SEEDS = int(os.environ.get("BAI_NODE_LIVES", "6"))
QUICK_SEEDS = 2
NODES = 4
SPECS = (
    "movable: true, resources: {cpu: 1, memory: 1GiB}",
    "movable: true, resources: {cpu: 3, memory: 4GiB, cuda.device: 1}",
    "resources: {cpu: 1, memory: 1GiB}",
    "preemptible: true, resources: {cpu: 2, memory: 1GiB}",
)


class Life:
    """One seed's cluster. Every boundary of an effect, and every write, may be where the process dies."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.most = self.rng.choice([1, 1, 2])
        canary = self.rng.choice(["true", "false"])
        self.lab = NodeLab(folder, nodes=NODES, rules=f"maxUnavailable: {self.most}, canary: {canary}")
        self.lab.world.at = self._at
        self.lab.machines.at = self._node
        self.fate = Fate()
        self.engine = self.lab.store._engine
        self.address = self.lab.store.address
        self.sessions: dict[str, str] = {}
        self.version = 1
        self.plan: Plan | None = None
        self.log: list[str] = []
        self.broken = ""
        """The node whose provisioning failed in the apply that goes on."""

    def live(self) -> None:
        if self.rng.random() < 0.8:
            self._settle_in()
        for _ in range(self.rng.randint(3, 6)):
            self._edit()
            self._misfortune()
            self._run()
        self._calm()

    def _settle_in(self) -> None:
        """A cluster that serves already."""
        for name in ("a", "b", "c"):
            self._write(name, self.rng.choice(SPECS))
        for _ in range(6):
            self._run(mortal=False)

    # What people and machines do

    def _write(self, name: str, spec: str) -> None:
        self.sessions[name] = spec
        self.lab.write({name: session(name, spec)})

    def _edit(self) -> None:
        if self.rng.random() < 0.5:
            self.version = self.rng.randint(1, 3)
            self.lab.write({"profile": profile(swappiness=self.version)})
        for name in ("a", "b", "c"):
            chance = self.rng.random()
            if chance < 0.2:
                self._write(name, self.rng.choice(SPECS))
            elif chance < 0.3 and name in self.sessions:
                del self.sessions[name]
                self.lab.drop(name)

    def _misfortune(self) -> None:
        self.lab.world.clock.sleep(self.rng.choice([1.0, 100.0]))
        node = self.rng.choice(self.lab.names)
        chance = self.rng.random()
        if chance < 0.2:
            trouble = self.rng.choice(["fail", "half", "unreachable", "busy"])
            self.lab.machines.inject(NodeFault(node, trouble))  # type: ignore[arg-type]
        elif chance < 0.4:
            self.lab.machines.drift(node, "package x", "2", "1")
        elif chance < 0.5:
            self.lab.machines.down[node] = self.lab.world.down[node] = "no answer"
        elif chance < 0.8:
            self.lab.machines.down.clear()
            self.lab.world.down.clear()

    # One run of the tool

    def _run(self, *, mortal: bool = True) -> Plan | None:
        doomed = mortal and self.rng.random() < 0.7
        self.fate.left = self.rng.randint(1, self.rng.choice([5, 12, 30])) if doomed else None
        self.fate.intents.clear()
        self.lab.store = MortalStore.reopen(self.address, self.engine, self.fate)
        try:
            return self._plan_and_apply()
        except Killed:
            self.log.append("killed")
            self.lab.machines.busy.clear()
            self.lab.world.clock.sleep(61)
        except (StalePlan, LeaseHeld) as error:
            self.log.append(str(error))
        finally:
            self.fate.left = None
        return None

    def _plan_and_apply(self) -> Plan:
        lab = self.lab
        plan = self.plan = lab.plan_nodes()
        self.log.append(", ".join(f"{a.verb} {a.id} ({a.why})" for a in plan.changes))
        self._wave_is_within_bounds(plan)
        self.broken = ""
        result = lab.apply(
            plan, parallel=self.rng.choice([1, 2, 8]), runner=SeededRunner(self.rng), on_event=self._event
        )
        self.log.append(", ".join(f"{r.action} {r.outcome} {r.error}" for r in result.results))
        lab.refresh()
        return plan

    def _event(self, event: ApplyEvent) -> None:
        if event.kind == "action" and event.state == "failed" and event.action.startswith("Node/"):
            self.broken = event.action
        begins = event.kind == "step" and event.state == "started" and event.step.startswith("provision ")
        if begins and self.broken:
            raise Violation(f"{event.action} was begun after {self.broken} had failed")

    # What must never happen

    def _at(self, operation: str, kernel: str, moment: str) -> None:
        if operation in ("create", "update", "stop", "remove"):
            nothing_given_twice(self.lab.world)
            nothing_doubled(self.lab.world)
            self.fate.boundary()

    def _node(self, node: str, moment: str) -> None:
        if ("provision", node) not in self.fate.intents and moment == "before":
            raise Violation(f"provisioning of {node} was not announced in the journal")
        there = [k.spec.labels.resource for k in live(self.lab.world).values() if k.spec.labels.node == node]
        if there:
            raise Violation(f"{node} is provisioned under {there}")
        self.fate.boundary()

    def _wave_is_within_bounds(self, plan: Plan) -> None:
        """Nodes of the wave that serve, and nodes that are out of use: never more than allowed, but for
        those that were out of use before."""
        wave = plan.rollout.wave if plan.rollout else ()
        provision_records = self.lab.store.provision_records("here")
        machines = self.lab.machines
        undone = {n for n, one in provision_records.items() if one.state in ("provisioning", "failed")}
        joined = {n for n in self.lab.names if (seal := machines.nodes[n].stamp) and not seal.unfinished}
        lost = {n for n in machines.down if n in joined or n in provision_records}
        serving = {n for n in wave if n in joined} - undone - lost
        if serving and len(serving | undone | lost) > self.most:
            raise Violation(f"{wave} with {undone} and {lost} out of use, and {self.most} allowed")
        self._moves_only_what_may_move(plan)
        self._puts_nothing_on(wave, plan)

    def _moves_only_what_may_move(self, plan: Plan) -> None:
        for action in plan.changes:
            stays = action.id.startswith("Session/") and "to be provisioned" in action.why
            name = action.id.rpartition("/")[2]
            if stays and not any(word in self.sessions.get(name, "") for word in ("movable", "preemptible")):
                raise Violation(f"{action.id} is moved, and may not be")

    def _puts_nothing_on(self, wave: tuple[str, ...], plan: Plan) -> None:
        for action in plan.changes:
            after = action.session_after
            placement = after.placement if after and after.specs else None
            for part in placement.kernels if placement else ():
                old = action.placement_before
                if part.node in wave and placement != old:
                    raise Violation(f"{action.id} is put on {part.node}, which is to be provisioned")

    # In the end

    def _calm(self) -> None:
        lab = self.lab
        lab.machines.down.clear()
        lab.world.down.clear()
        while lab.machines.take_fault("nobody"):
            pass
        lab.machines._faults.clear()
        for _ in range(NODES + 2):
            # As far as it goes around those who may not move.
            self._run(mortal=False)
        for name in list(self.sessions):
            self._write(name, SPECS[0])
        for _ in range(25):
            lab.world.clock.sleep(5)
            plan = self._run(mortal=False)
            if plan is not None and not plan.changes:
                break
        else:
            raise Violation("no end: " + self.log[-2])
        assert plan.rollout is None, plan.rollout
        wanted = lab.actual().provision_status
        assert wanted is not None
        for name, node in lab.machines.nodes.items():
            assert node.stamp is not None and not node.deviations
            assert node.stamp.fingerprint == wanted.targets[name].fingerprint
        running = {k.spec.labels.resource for k in live(lab.world).values()}
        assert running == {f"Session/p/{name}" for name in self.sessions}


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(min(QUICK_SEEDS, SEEDS)), id="first"),
        pytest.param(range(QUICK_SEEDS, SEEDS, 2), marks=pytest.mark.slow, id="even"),
        pytest.param(range(QUICK_SEEDS + 1, SEEDS, 2), marks=pytest.mark.slow, id="odd"),
    ],
)
def test_lives(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        life = Life(seed, tmp_path / str(seed))
        try:
            life.live()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(life.log)) from error
        finally:
            life.lab.store.close()
