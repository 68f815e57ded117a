"""Parameters of GEMMEDClassifier and MEDClassifier from single settings, for short tests."""

from dataclasses import fields

from gemmed import Selection, Solver

KERNEL = ("degree", "coef0", "function_variance", "bias_variance")


def parameters_of(**settings):
    """Settings of the kernel, the solver and the selection go into their records."""
    kernel = {name: settings.pop(name) for name in KERNEL if name in settings}
    found = {"kernel_params": kernel} if kernel else {}
    for name, record in (("solver", Solver), ("selection", Selection)):
        own = {f.name: settings.pop(f.name) for f in fields(record) if f.name in settings}
        if own:
            found[name] = record(**own)
    return found | settings
