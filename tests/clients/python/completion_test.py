"""The completion of the command topk in the shell that is named.

usage: completion_test.py TOPK bash|zsh|fish
"""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TOPK, SHELL = sys.argv[1:3]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE

# The typed text, and the completions, whole or in part. The folder has a.npy
# and a folder named results.
CASES = (
    ("topk ", {"run", "bench", "completion", "man"}, set()),
    ("topk be", {"bench"}, {"run"}),
    ("topk run --sm", {"--smallest"}, {"--k"}),
    ("topk merge ", {"results"}, {"a.npy"}),
    ("topk run --dialect ", {"onnx", "openvino", "directml"}, {"a.npy"}),
    ("topk bench --arrivals p", {"poisson"}, {"constant"}),
    ("topk run ", {"a.npy"}, set()),
    ("topk run a", {"a.npy"}, set()),
    ("topk run a.npy --tls-ca a", {"a.npy"}, set()),
    ("topk run a.npy --out ", {"results"}, {"a.npy"}),
    ("topk run a.npy --k ", set(), {"a.npy", "--k"}),
    ("topk completion ", {"bash", "zsh", "fish"}, {"a.npy"}),
)


def bash(script, lines, folder):
    """Yields what bash's own machinery would be given for each line."""
    for typed in lines:
        words = typed.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(
            ["bash", "--norc", "-c",
             f"source {script}; COMP_WORDS=({quoted}); "
             f"COMP_CWORD={len(words) - 1}; _topk; "
             "printf '%s\\n' \"${COMPREPLY[@]}\""],
            cwd=folder, capture_output=True, text=True, check=True)
        yield done.stdout.splitlines()


def fish(script, lines, folder):
    """Yields what fish offers for each line."""
    for typed in lines:
        done = subprocess.run(
            ["fish", "--no-config", "-c",
             f"source {script}; complete -C '{typed}'"],
            cwd=folder, capture_output=True, text=True, check=True,
            env=dict(os.environ, HOME=str(folder)))
        yield [line.split("\t")[0] for line in done.stdout.splitlines()]


# zsh has no command that lists its matches: they are printed by the
# function that adds them, except those that completion functions sort.
ZSHRC = """
autoload -Uz compinit; compinit -u -D; PS1=
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a hits
  builtin compadd -A hits "$@"
  [[ $#hits -eq 0 ]] || print -rl -- "<hit>"${^hits}"</hit>"
  builtin compadd "$@"
}
ask() { zle complete-word; print '<end>' }
zle -N ask; bindkey '^I' ask
source SCRIPT
print '<end>'
"""


def zsh(script, lines, folder):
    """Yields what zsh offers for each line, on a terminal."""
    (folder / ".zshrc").write_text(ZSHRC.replace("SCRIPT", str(script)),
                                   encoding="utf-8")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-d", "-i"],
                   dict(os.environ, ZDOTDIR=str(folder), TERM="dumb"))

    def until_end():
        shown = ""
        deadline = time.monotonic() + 30
        while "<end>" not in shown:
            if time.monotonic() > deadline:
                raise TimeoutError(shown)
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536).decode(errors="replace")
        return shown

    try:
        until_end()
        for typed in lines:
            os.write(terminal, b"\x15" + typed.encode() + b"\t")
            yield re.findall("<hit>(.*?)</hit>", until_end())
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


class Completion(unittest.TestCase):
    def test_offered_words(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a.npy").touch()
            (folder / "results").mkdir()
            script = folder / "topk.completion"
            script.write_text(
                subprocess.run([TOPK, "completion", SHELL], check=True,
                               capture_output=True, text=True).stdout,
                encoding="utf-8")
            answers = {"bash": bash, "zsh": zsh, "fish": fish}[SHELL](
                script, [typed for typed, _, _ in CASES], folder)
            for (typed, offered, others), answer in zip(CASES, answers):
                with self.subTest(typed):
                    words = {word.rstrip("/") for word in answer}
                    self.assertLessEqual(offered, words)
                    self.assertFalse(others & words, words)

    def test_every_flag_of_help_is_offered(self):
        script = subprocess.run([TOPK, "completion", SHELL], check=True,
                                capture_output=True, text=True).stdout
        for command in ("run", "health", "info", "bench"):
            text = subprocess.run([TOPK, command, "--help"], check=True,
                                  capture_output=True, text=True).stdout
            flags = re.findall(r"^  --([a-z-]+)", text, re.M)
            self.assertGreater(len(flags), 5)
            for flag in flags:
                self.assertRegex(script, rf"(--|-l ){flag}\b")


if __name__ == "__main__":
    if shutil.which(SHELL) is None:
        print(f"{SHELL} is not installed: skipped")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
