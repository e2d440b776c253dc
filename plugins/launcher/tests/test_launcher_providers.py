"""Machines that a node provider makes: the head by the same contract as workers, and nothing left behind."""

from __future__ import annotations

import random
import subprocess
from dataclasses import replace

import pytest
from kernel_launcher.errors import MachineError
from kernel_launcher.life import providers
from kernel_launcher.life.failing import end_one
from kernel_launcher.life.prices import prices_of
from kernel_launcher.life.providers import await_head, end_all, forget_order, make_provider, provider_for
from kernel_launcher.plan import HEAD, WORKER, ClusterPlan, KindPlan, SshAccess
from kernel_launcher.steps.autoscaler_file import provider_options
from kernel_launcher.steps.provider_words import has_provider

from kernel_spec.errors import NodeProviderError, OptionError, PluginNotFoundError
from kernel_spec.providers import KindDetails, ProvidedNode

PLAN = ClusterPlan(
    "mine",
    "aws",
    {"region": "r", "availability_zone": "a, b", "use_internal_ips": False},
    kinds={"head": KindPlan("head", {"InstanceType": "x"}), "worker": KindPlan("worker", {"InstanceType": "y"})},
    maximum_workers=2,
)


class Provider:
    """A provider whose machines run at the second list, and end at the second list after that."""

    name = "small"

    def __init__(self, failures=()):
        self.machines = {}
        self.tokens = []
        self.failures = list(failures)

    def kinds(self):
        return {"worker": {"CPU": 1.0}}

    def describe(self, kind):
        return KindDetails(0.5)

    def list(self):
        if self.failures:
            raise self.failures.pop(0)
        for id, one in list(self.machines.items()):
            if one.state == "stopping":
                del self.machines[id]
        found = list(self.machines.values())
        for one in found:
            if one.state == "starting":
                self.machines[one.id] = replace(one, state="running", address="10.0.0.1")
        return found

    def create(self, kind, count, join, token=""):
        assert not join and count == 1
        if token not in self.tokens:
            self.tokens.append(token)
            id = f"m{len(self.tokens)}"
            self.machines[id] = ProvidedNode(id, kind, "starting")
        return list(self.machines)

    def terminate(self, ids):
        for id in ids:
            self.machines[id] = replace(self.machines[id], state="stopping")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(providers, "_POLL_SECONDS", 0.0)


def test_a_head_is_made_once(tmp_path):
    provider, lines = Provider(), []
    assert await_head(provider, tmp_path, lines.append).address == "10.0.0.1"
    assert await_head(provider, tmp_path, lines.append).id == "m1"
    assert lines == ["ask the provider small for the head's machine"]


def test_an_order_that_was_cut_off_is_the_same_order_again(tmp_path):
    provider = Provider()
    provider.create(HEAD, 1, {}, providers._order_token(tmp_path))
    provider.machines.clear()  # As a list that lags shows it.
    provider.create(HEAD, 1, {}, providers._order_token(tmp_path))
    assert len(provider.tokens) == 1
    forget_order(tmp_path)
    provider.create(HEAD, 1, {}, providers._order_token(tmp_path))
    assert len(provider.tokens) == 2


def test_a_machine_that_fails_is_told_with_its_problem(tmp_path):
    provider = Provider()
    provider.machines["m"] = ProvidedNode("m", HEAD, "failed", problem="no disk")
    with pytest.raises(MachineError, match=r"the head's machine m has failed: no disk"):
        await_head(provider, tmp_path, lambda line: None)


def test_the_list_decides_what_is_left():
    provider, lines = Provider([NodeProviderError("slow down", code="throttled", retry_after=0.0)]), []
    for number in range(3):
        provider.machines[f"m{number}"] = ProvidedNode(f"m{number}", "worker", "running")
    assert end_all(provider, lines.append) == 3 and not provider.machines
    assert lines == ["end m0, m1, m2"]
    with pytest.raises(NodeProviderError):
        end_all(Provider([NodeProviderError("who are you", code="credentials")]), lines.append)


def test_machines_that_stay_are_named(monkeypatch):
    provider = Provider()
    provider.machines["m"] = ProvidedNode("m", "worker", "running")
    monkeypatch.setattr(provider, "terminate", lambda ids: None)
    with pytest.raises(MachineError, match=r"after 0 s the provider small still lists m; `kernel down` tries again"):
        end_all(provider, lambda line: None, 0.0)


def test_a_worker_is_given_back_by_chance(tmp_path):
    provider = Provider()
    with pytest.raises(MachineError, match=r"the cluster mine has no workers that run"):
        end_one(PLAN, tmp_path, random.Random(0), True, print, lambda name, options: provider)
    provider.machines["m"] = ProvidedNode("m", "worker", "running")
    said = end_one(PLAN, tmp_path, random.Random(0), True, print, lambda name, options: provider)
    assert said == "m: the machine was given back" and provider.machines["m"].state == "stopping"


def test_a_provider_is_told_its_role_in_its_own_words(tmp_path):
    asked = []

    def make(name, options):
        asked.append((name, options))
        return Provider()

    provider_for(PLAN, HEAD, tmp_path, make)
    provider_for(replace(PLAN, ssh=SshAccess("me", "/key")), HEAD, tmp_path, make)
    (name, options), (_, other) = asked
    assert name == "aws" and options["kinds"] == {"head": {"InstanceType": "x"}} and options["role"] == "head"
    assert options["zones"] == ["a", "b"] and not {"availability_zone", "use_internal_ips"} & set(options)
    assert options["key_file"] == str(tmp_path / "key.pem") and other["key_file"] == "/key"
    assert provider_options(PLAN, WORKER)["kinds"] == {"worker": {"InstanceType": "y"}}


def test_files_for_google_cloud_become_its_providers_words():
    section = {"type": "gcp", "region": "us-west1", "availability_zone": "us-west1-a", "project_id": "p"}
    machine = {"machineType": "n1-standard-2", "scheduling": [{"preemptible": True}]}
    plan = replace(
        PLAN, provider="gcp", provider_options=section, kinds={"head": KindPlan("head", machine, labels={"a": "b"})}
    )
    options = provider_options(plan, HEAD)
    assert options["project"] == "p" and options["zones"] == ["us-west1-a"] and "region" not in options
    kind = {"machineType": "n1-standard-2", "scheduling": {"preemptible": True}, "node_labels": {"a": "b"}}
    assert options["kinds"] == {"head": kind}


def test_what_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(
        PluginNotFoundError, match=r"there is no node provider 'nowhere' on this machine: no distribution"
    ):
        make_provider("nowhere", {})
    with pytest.raises(OptionError, match=r"pods have no sshd, so `kernel up` can't make them a cluster"):
        provider_for(replace(PLAN, provider="kubernetes"), HEAD, tmp_path, make_provider)


def test_prices_or_the_reason_why_there_are_none(tmp_path):
    assert prices_of(PLAN, tmp_path, lambda name, options: Provider()) == {"worker": KindDetails(0.5)}
    known = prices_of(replace(PLAN, provider="nowhere"), tmp_path)
    assert str(known).startswith("not known: there is no node provider 'nowhere' on this machine")
    assert "the machines are there already" in str(prices_of(replace(PLAN, head_host="a"), tmp_path))


@pytest.mark.parametrize(
    ("offers", "code"),
    [
        ('{"head_service": [\n"autoscaler"], "node_provider": ["aws", "local"]}', 0),
        ('{"head_service": ["autoscaler"], "node_provider": ["manual"], "object_store": ["aws"]}', 1),
        ('{"head_service": [], "node_provider": ["aws"]}', 1),
    ],
)
def test_a_head_without_the_provider_is_not_started(tmp_path, offers, code):
    (tmp_path / "kernel").write_text(f"#!/bin/sh\ncat <<'END'\n{offers}\nEND\n")
    (tmp_path / "kernel").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", has_provider("aws")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert ("extras autoscaler and provider_aws" in done.stderr) == bool(code)
