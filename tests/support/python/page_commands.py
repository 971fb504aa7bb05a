"""Runs the commands in a page: its ```sh blocks, each in a separate bash. If a
```text block follows, it must match the end of the standard output, where "..."
stands for any text within a line."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile

SECONDS = 600  # the time limit of a block
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```sh\n(?P<commands>.*?)^```\n"
    r"(?:\n?```text\n(?P<text>.*?)^```\n)?", re.MULTILINE | re.DOTALL)

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def as_expected(output, text):
    """Returns whether the output ends with the expected text."""
    wanted = text.rstrip().splitlines()
    got = output.rstrip().splitlines()[-len(wanted):]
    return len(got) == len(wanted) and all(
        re.fullmatch(".*".join(map(re.escape, want.split("..."))), line)
        for want, line in zip(wanted, got))


def run_block(commands, text, folder, environment):
    """Runs a block. Returns an error message, or None on success."""
    with tempfile.TemporaryFile("w+") as output, (
            tempfile.TemporaryFile("w+")) as errors, subprocess.Popen(
                ["bash", "-euc", commands], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                start_new_session=True) as shell:
        try:
            shell.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"not done after {SECONDS} s"
        finally:  # a failed block may leave servers running
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        output.seek(0)
        errors.seek(0)
        out, err = output.read(), errors.read()
    if shell.returncode != 0:
        return f"exit {shell.returncode}\n{out}{err}"
    printed = COLOURS.sub("", out)
    if text is not None and not as_expected(printed, text):
        return f"expected:\n{text}printed:\n{printed}"
    return None
