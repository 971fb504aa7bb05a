"""The phrases that no text of the project has, and the text of each file.

Text is what a person reads: pages without code, comments, and the string
literals of C++, Python and JSON, where help and errors are, and all of YAML and
TOML.
"""

import io
import re
import tokenize

# The files that the rule covers. tests/quality/tidy has the phrases as samples.
COVERED = re.compile(r".*\.md|(?:deploy|proto|core|server|client)/.*|"
                     r"tests/(?!quality/tidy/).*")

# Parts of lines in which such a phrase is right: {file: [part of a line]}.
ALLOWED = {}

# A space in a pattern also matches the end of a line.
_PATTERNS = [
    # Openings without a subject, unless they ask.
    (r"(?:(?<=\n)|(?<=[.:;|] ))(?:[-*#|>] )?"
     r"(?:What|Who|Whoever|Whatever|Which)\b(?![^.]*\?)",
     "name the subject"),
    (r"\bsays? (?:how|what|when|which|who|whether|why)\b",
     "documents, reports or describes"),
    (r"\b[Ww]ho(?:ever)? (?:is|are|does|asks|sends|comes|has|wants|exceeds)\b",
     "name the client or caller"),
    # Quantities without a name.
    (r"\bso (?:many|much|long)\b(?! (?:that|as))", "name the quantity"),
    # Events with everyday verbs.
    (r"\b[Uu]nder way\b", "in flight"),
    (r"\b(?:comes?|came|sent|tried|tries|try) again\b", "retry"),
    (r"\blet(?:s|ting)? in\b", "admit"),
    (r"\b(?:is|are|was|were) told\b|\bhears?\b|\btold to\b", "receives"),
    (r"\b(?:memory goes back|goes back to the system)\b",
     "is released to the OS"),
    # Phrases translated word for word.
    (r"\b(?:is|are|was|were|has|have|had) none\b",
     "is not a, there is no"),
    (r"\b(?:has|have) not\b(?! (?:been|yet))", "does not have"),
    (r"\b(?:[Aa]new|[Aa]mid|[Mm]eanwhile|[Bb]eside)\b",
     "again; during; compared with, next to"),
    (r"\b[Bb]ut (?:for|that)\b", "except"),
    (r"\bof (?:ours|theirs|its own|one's)\b", "our, their, its own"),
    (r"\b(?:wants? of|asked of)\b", "require"),
    (r"\b[Pp]rocessors?['\u2019]?s? time\b", "CPU time"),
    (r"\bmost (?:bytes|elements)\b|\bat the most\b", "max, at most"),
]
PATTERNS = [(re.compile(pattern.replace(" ", "[ \n]")), advice)
            for pattern, advice in _PATTERNS]


# The subjects of later commits follow the rule, except these.
LAST_FREE_COMMIT = "1ad66623383262f18055860662a2583a75f2bf89"
ALLOWED_COMMITS = ("566be29", "d0098fb", "3da1c54")
_SUBJECT = re.compile(r"[\w./+-]+(?:, [\w./+-]+)*: ([a-z-]+),? \S")
# Words that begin no imperative, besides other forms of verbs.
_NO_IMPERATIVE = re.compile(
    r"an?|the|this|that|these|those|there|it|they|we|what|who|whoever|which|"
    r"where|when|while|how|why|if|one|two|three|each|every|all|some|no|not|"
    r"more|fewer|to|for|of|in|by|\w{2,}[^s\W]s|(?!embed|shed)\w*(?<!e)ed|"
    r"\w{3,}ing")


def _page(text):
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        yield "" if fenced else re.sub(r"`[^`]*`", "`x`", line.strip())


def _cpp(text):
    for line in text.split("\n"):
        comment = re.search(r"(?:^|\s)///?<? ?(.*)$", line)
        literals = re.findall(r'"((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"', line)
        yield comment[1] if comment else " ".join(literals)


def _hash(text):
    for line in text.split("\n"):
        comment = re.search(r"(?:^|\s)# ?(.*)$", line)
        yield comment[1] if comment else ""


def _python(text):
    found = [""] * (text.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found[token.start[0] - 1] += token.string.lstrip("# ")
        elif token.type == tokenize.STRING and " " in token.string:
            body = token.string.lstrip("frbFRB").strip("\"'")
            for row, line in enumerate(body.split("\n"), token.start[0] - 1):
                found[row] += line.strip()
    return found


def prose(name, text):
    """Returns the text of a file, with the file's line numbers."""
    if name.endswith(".md"):
        found = _page(text)
    elif name.endswith((".h", ".cc", ".cu", ".proto")):
        found = _cpp(text)
    elif name.endswith(".json"):
        found = [" ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', line))
                 for line in text.split("\n")]
    elif name.endswith((".yaml", ".yml", ".toml")):  # texts are values
        found = [line.strip().lstrip("# ") for line in text.split("\n")]
    elif name.endswith(".py"):
        found = _python(text)
    else:
        found = _hash(text)
    return "\n" + "\n".join(found)


def subject(text):
    """Yields the faults of a commit's subject."""
    form = _SUBJECT.match(text)
    if form is None:
        yield "write 'area: verb ...'"
    elif _NO_IMPERATIVE.fullmatch(form[1]):
        yield f"begin with a verb in the imperative, not '{form[1]}'"
    if len(text) > 72:
        yield f"{len(text)} characters; write at most 72"
    for pattern, advice in PATTERNS:
        if found := pattern.search("\n" + text):
            yield f"'{found[0]}': write: {advice}"


def words(files):
    """Yields each phrase that text should not have."""
    for name, text in files.items():
        if not COVERED.fullmatch(name):
            continue
        lines = text.split("\n")
        allowed = ALLOWED.get(name, [])
        for entry in allowed:
            if not any(entry in line for line in lines):
                yield f"{name}: nothing to allow: {entry}"
        read = prose(name, text)
        for pattern, advice in PATTERNS:
            for match in pattern.finditer(read):
                number = read.count("\n", 0, match.end())
                line = lines[number - 1]
                if not any(entry in line for entry in allowed):
                    phrase = " ".join(match[0].split())
                    yield f"{name}:{number}: '{phrase}': write: {advice}"
