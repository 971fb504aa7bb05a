"""The responses that clients must accept or reject, of answer_cases.json."""

import json
import pathlib

CASES = json.loads(
    (pathlib.Path(__file__).resolve().parents[2] / "clients/cpp"
     / "answer_cases.json").read_text(encoding="utf-8"))


def patched(value, change):
    """Returns a JSON object with changes as RFC 7396 has them."""
    result = dict(value)
    for key, new in change.items():
        if new is None:
            result.pop(key, None)
        elif isinstance(new, dict):
            result[key] = patched(result.get(key, {}), new)
        else:
            result[key] = new
    return result
