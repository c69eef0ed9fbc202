# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugins as files: Slurm opens them lazily, so a symbol that is missing would be found only by
the first call, perhaps weeks later; here it is found now."""

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import TOP

LIBRARIES = Path(os.environ.get("TRANCHE_BUILD") or TOP / "build") / ".libs"
IN_SLURMCTLD = ("priority_budget", "preempt_contract", "job_submit_contract")
ENTRY_POINTS = {
    "priority_budget": {
        "init", "fini", "priority_p_set", "priority_p_reconfig", "priority_p_set_assoc_usage",
        "priority_p_calc_fs_factor", "priority_p_get_priority_factors_list", "priority_p_job_end"},
    "preempt_contract": {
        "init", "fini", "preempt_p_job_preempt_check", "preempt_p_preemptable",
        "preempt_p_get_data"},
    "job_submit_contract": {"init", "fini", "job_submit", "job_modify"},
    "spank_contract": {"slurm_spank_init"},
}
ABOUT = {"plugin_name", "plugin_type", "plugin_version"}


@functools.cache
def symbols(file, *options):
    """Names without versions. Weak imports may stay unresolved and local names are nobody's: both
    are left out."""
    text = subprocess.run(["nm", "-D", *options, str(file)], text=True, capture_output=True,
                          check=True).stdout
    names = set()
    for line in text.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U" if "--undefined-only" in options else kind not in "tdrb":
            names.add(name.split("@")[0])
    return frozenset(names)


@functools.cache
def exported_with_libraries(file):
    """What a program or library exports together with all the libraries it needs."""
    names = set(symbols(file, "--defined-only"))
    text = subprocess.run(["ldd", str(file)], text=True, capture_output=True, check=True).stdout
    for library in re.findall(r"(/\S+) \(0x", text):
        names |= symbols(library, "--defined-only")
    return names


def program(name):
    return subprocess.run(["bash", "-c", f"PATH=$PATH:/usr/sbin command -v {name}"], text=True,
                          capture_output=True, check=True).stdout.strip()


@pytest.mark.parametrize("plugin", IN_SLURMCTLD + ("libtranche",))
def test_slurmctld_has_every_symbol_that_the_plugin_imports(plugin):
    file = LIBRARIES / f"{plugin}.so"
    there = exported_with_libraries(program("slurmctld")) | exported_with_libraries(file)
    assert symbols(file, "--undefined-only") - there == set()


@pytest.mark.parametrize("plugin", IN_SLURMCTLD)
def test_slurmctld_has_the_variables_that_are_weak_for_the_sake_of_clients(plugin):
    text = subprocess.run(["nm", "-D", "--undefined-only", str(LIBRARIES / f"{plugin}.so")],
                          text=True, capture_output=True, check=True).stdout
    weak = set(re.findall(r" [wvV] ([a-z]\w*)$", text, re.M))
    assert weak - exported_with_libraries(program("slurmctld")) == set()


@pytest.mark.parametrize("command", ["sbatch", "salloc", "srun", "slurmd", "slurmstepd"])
def test_the_spank_plugin_finds_its_symbols_wherever_it_is_loaded(command):
    file = LIBRARIES / "spank_contract.so"
    there = exported_with_libraries(program(command)) | exported_with_libraries(file)
    assert symbols(file, "--undefined-only") - there == set()


@pytest.mark.parametrize("plugin", IN_SLURMCTLD)
def test_a_client_of_slurm_can_open_the_plugin(plugin):
    # sshare does. Functions of slurmctld are bound when they are called, variables at once.
    text = subprocess.run(["ldd", program("slurmctld")], text=True, capture_output=True,
                          check=True).stdout
    library = re.search(r"(/\S+libslurmfull\.so)", text).group(1)
    script = f"import ctypes, os; ctypes.CDLL({str(LIBRARIES / plugin)!r} + '.so', os.RTLD_LAZY)"
    answer = subprocess.run(["/usr/bin/python3", "-c", script], check=False, text=True,
                            capture_output=True, env={**os.environ, "LD_PRELOAD": library})
    assert answer.stderr == ""


@pytest.mark.parametrize("plugin", ENTRY_POINTS)
def test_a_plugin_exports_its_entry_points_and_nothing_of_its_own(plugin):
    exported = symbols(LIBRARIES / f"{plugin}.so", "--defined-only")
    assert (ENTRY_POINTS[plugin] | ABOUT) - exported == set()
    foreign = {name for name in exported
               if not re.match(r"plugin_|spank_plugin_|slurm_spank_|priority_p_|preempt_p_|"
                               r"init$|fini$|job_submit$|job_modify$", name)}
    assert foreign == set()


@pytest.mark.parametrize("plugin", ENTRY_POINTS)
def test_a_plugin_stays_mapped_and_finds_libtranche_beside_itself(plugin):
    text = subprocess.run(["readelf", "-d", str(LIBRARIES / f"{plugin}.so")], text=True,
                          capture_output=True, check=True).stdout
    assert "NODELETE" in text
    if "libtranche.so" in text:
        assert "[libtranche.so]" in text and "[$ORIGIN]" in text
    if plugin in IN_SLURMCTLD:
        assert "[libtranche.so]" in text  # one engine for all that slurmctld loads
