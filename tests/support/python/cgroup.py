"""A cgroup with a memory limit, if this user may create one."""

import contextlib
import os
import pathlib

ROOT = pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def limited(mebibytes):
    """Yields a function that moves the calling process into a cgroup with a
    memory limit, or None if this machine does not allow that."""
    for folder, limit in ((ROOT / "memory", "memory.limit_in_bytes"),
                          (ROOT, "memory.max")):
        group = folder / f"topk-{os.getpid()}"
        try:
            group.mkdir()
            if not (group / "cgroup.procs").exists():
                raise OSError(f"{folder} is an ordinary folder")
            (group / limit).write_text(str(mebibytes << 20), encoding="ascii")
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield lambda group=group: (group / "cgroup.procs").write_text(
                "0", encoding="ascii")
        finally:
            group.rmdir()
        return
    yield None
