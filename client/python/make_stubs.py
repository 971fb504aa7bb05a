"""Generates topk_client/_stubs from the .proto files.

The stubs are inside the package, so that they cannot collide with other stubs
of the same protos.
"""

import pathlib
import re
import subprocess
import tempfile


def make_stubs(protoc, protos, stubs):
    """Generates the stubs in the folder `stubs`.

    `protoc` is the beginning of a command line that runs protoc 3.20 or later.
    Raises subprocess.CalledProcessError if protoc fails."""
    protos, stubs = pathlib.Path(protos), pathlib.Path(stubs)
    names = sorted(p.name for p in (protos / "topk" / "v1").glob("*.proto"))
    stubs.mkdir(parents=True, exist_ok=True)
    (stubs / "__init__.py").touch()
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(
            [*protoc, f"-I{protos}", f"--python_out={made}",
             f"--pyi_out={made}", *(f"topk/v1/{name}" for name in names)],
            check=True)
        for path in pathlib.Path(made).glob("**/*_pb2.py*"):
            text = path.read_text(encoding="utf-8")
            text = text.replace("from topk.v1 import",
                                "from topk_client._stubs import")
            text = re.sub(r"'topk\.v1\.(\w+_pb2)'",
                          r"'topk_client._stubs.\1'", text)
            (stubs / path.name).write_text(text, encoding="utf-8")

