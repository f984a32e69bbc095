"""Which judge speaks for which program."""

from __future__ import annotations

import re

from hermetic.policy import destroys, effects, network
from hermetic.policy.call import Call, Judge
from hermetic.policy.rules import Rule

from . import (
    archives,
    awk,
    builtins,
    carriers,
    cloud,
    connections,
    containers,
    copying,
    databases,
    debuggers,
    disks,
    environment,
    exactness,
    execution,
    files,
    fleets,
    git,
    hermetic_cli,
    interpreters,
    kubectl,
    lookups,
    makefiles,
    managers,
    outputs,
    packages,
    permissions,
    printing,
    privileges,
    processes,
    provisioning,
    python_runners,
    recipes,
    repositories,
    searching,
    servers,
    services,
    system,
    texts,
    tools,
    transfer,
    trust,
    unseen,
    verbs,
    windows,
    wrappers,
)

FALLBACK = tools.judge_anything
_VERSION = re.compile(
    r"(python|pypy|perl|ruby|lua|php|node|pip|tclsh|wish|gcc|clang|guile|ipython|psql|mysql|"
    r"java|julia|vim|bash|zsh|ksh|awk|qemu-system-\w+|mkfs)[-\d.]+$"
)


def all_judges() -> dict[str, Judge]:
    """Every program somebody speaks for."""
    judges: dict[str, Judge] = {
        **tools.JUDGES,
        **debuggers.JUDGES,
        **disks.JUDGES,
        **services.JUDGES,
        **archives.JUDGES,
        **permissions.JUDGES,
        **privileges.JUDGES,
        **searching.JUDGES,
        **cloud.JUDGES,
        **fleets.JUDGES,
        **managers.JUDGES,
        **system.JUDGES,
        **provisioning.JUDGES,
        **databases.JUDGES,
        **interpreters.JUDGES,
        **python_runners.JUDGES,
        **windows.JUDGES,
        **packages.JUDGES,
        **makefiles.JUDGES,
        **containers.JUDGES,
        **kubectl.JUDGES,
        **connections.JUDGES,
        **copying.JUDGES,
        **servers.JUDGES,
        **transfer.JUDGES,
        **texts.JUDGES,
        **awk.JUDGES,
        **processes.JUDGES,
        **printing.JUDGES,
        **lookups.JUDGES,
        **files.JUDGES,
        **git.JUDGES,
        **repositories.JUDGES,
        **hermetic_cli.JUDGES,
        **wrappers.JUDGES,
        **builtins.JUDGES,
        **execution.JUDGES,
    }
    judges.update(wrappers.judge_runner_with(judges))
    judges.update(copying.with_copies(judges, FALLBACK))
    judges.update(servers.with_control(judges, FALLBACK))
    judges.update(trust.with_trust(judges, FALLBACK))
    judges.update(verbs.with_known_verbs(judges))
    judges.update(carriers.with_carried(judges, FALLBACK))
    judges.update(recipes.with_recipes(judges, FALLBACK))
    judges.update(exactness.exact(judges))
    judges.update(outputs.with_outputs(judges, FALLBACK))
    return judges


def find_judge(judges: dict[str, Judge], call: Call) -> Judge:
    """The judge of a program by its name; a version at the name's end is taken off."""
    if call.argv[0].startswith(("/etc/init.d/", "/etc/rc.d/")):
        return judges["service"]
    judge = judges.get(call.name)
    if judge is not None:
        return judge
    match = _VERSION.match(call.name)
    if match and match[1] in judges:
        call.name = match[1]
        return judges[call.name]
    return FALLBACK


def all_rules() -> tuple[Rule, ...]:
    """Every rule with its examples."""
    modules = (
        effects,
        network,
        destroys,
        unseen,
        builtins,
        environment,
        wrappers,
        privileges,
        permissions,
        archives,
        disks,
        services,
        files,
        texts,
        processes,
        provisioning,
        system,
        git,
        hermetic_cli,
        containers,
        connections,
        servers,
        transfer,
        packages,
        tools,
    )
    return tuple(rule for module in modules for rule in module.RULES)
