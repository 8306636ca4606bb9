"""How much memory a program took that a test starts."""

PROGRAM = """
def peak_kib():
    # What getrusage tells of a process begins with what started it: a large test run would be counted.
    import pathlib, resource
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    return _told_kib(resource.RUSAGE_SELF)


def helpers_peak_kib():
    # The largest of those that it started and waited for; at least what it had itself when it started them.
    import resource
    return _told_kib(resource.RUSAGE_CHILDREN)


def _told_kib(whose):
    import resource, sys
    return resource.getrusage(whose).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


"""
"""Python text to begin a program with that is to tell ``peak_kib()``, its own, and ``helpers_peak_kib()``."""
