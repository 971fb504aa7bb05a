"""The responses in answer_cases.json, which clients must accept or reject."""

import json
import pathlib

CASES = json.loads(
    (pathlib.Path(__file__).resolve().parents[2] / "clients/cpp"
     / "answer_cases.json").read_text(encoding="utf-8"))
