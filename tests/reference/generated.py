"""The pages of docs/reference that repeat what stands in the sources: the prelude's functions and modules, every message, the
Python interface from its docstrings, the C interface from the comments of heddle.h. test_reference.py proves that they are
current; with --update it writes them."""

import ast
import copy
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


# ------------------------------------------------------------------------------ messages
def error_index():
    rows = re.findall(r'^HEDDLE_ERROR\((\w+), (\w+), "((?:[^"\\]|\\.)*)"', (ROOT / "dsl/errors/errors.def").read_text(), re.M)
    out = ["# Errors\n", "Every message has a code with a page of its own: what it means, a program that gives it with the whole message, and a",
           "program that is right. `heddle explain CODE` shows the page. E001 to E019 are syntax errors, E020 to E088 names,",
           "types, sizes and reads, W101 and on warnings.\n", "| code | meaning | message |", "|---|---|---|"]
    for code, _, template in rows:
        page = ROOT / "dsl/errors" / f"{code}.md"
        title = re.match(rf"# {code}: (.*)\n", page.read_text())[1] if page.exists() else ""
        message = re.sub(r"\{\d\}", "…", template).replace("\\\"", '"').replace("|", "\\|")
        out.append(f"| [{code}](../../dsl/errors/{code}.md) | {title} | {message} |")
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------------------ prelude
def sentence(comment):
    """The text of `# …` lines."""
    return " ".join(line.strip().lstrip("# ") for line in comment.splitlines())


def described(what, comment):
    return f"- `{what}`" + (f": {sentence(comment)}" if comment else "")


def prelude_module(comment, head, body):
    """A module: what it is, its weights, its functions with their parameters."""
    out = [f"### `{head}`", ""]
    if comment:
        out += [sentence(comment), ""]
    for name, path, kind, stored in re.findall(r'^  param (\w+)(?: +as "([^"]*)")?: *(.*?)(?: +stored (\[.*?\]))?$', body, re.M):
        called = f", called `{path}`" if path else ""
        out.append(f"- weight `{name}: {kind}`{called}" + (f", stored as `{stored}`" if stored else ""))
    for above, fn in re.findall(r"((?:^  #.*\n)*)^  (fn .*?) \{", body, re.M):
        out.append(described(fn, above))
    return out + [""]


def prelude_list():
    out = []
    for path in sorted((ROOT / "dsl/prelude").glob("*.heddle")):
        first, _, text = path.read_text().partition("\n\n")  # what the file is for
        out += [f"## {path.stem}", "", sentence(first), ""]
        text = re.sub(r"\n    (->|\w+: )", r" \1", text)  # a signature of several lines
        for comment, head, body in re.findall(r"^((?:#.*\n)*)((?:fn|module) .*)\n((?:(?!#|fn |module ).*\n)*)", text, re.M):
            if head.startswith("module "):
                out += ["", *prelude_module(comment, head.removesuffix(" {"), body)]
            else:  # `fn f(…) -> real =` has its value on the next line
                out.append(described(f"{head} {' '.join(body.split())}" if head.endswith(" =") else head.removesuffix(" {"), comment))
        out.append("")
    builtin = re.findall(r'HEDDLE_SCALAR\("(\w+)", \w+, (\d)\)', (ROOT / "dsl/check/scalars.def").read_text())
    out += ["## Built in", "", ", ".join(f"`{name}(x{', y' * (count == '2')})`" for name, count in builtin), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out))


def with_prelude(page):
    mark = "<!-- generated: prelude -->\n"
    return page[: page.index(mark) + len(mark)] + "\n" + prelude_list()


# ------------------------------------------------------------------------------ Python
def markdown(docstring):
    """Paragraphs of a docstring; indented lines become code."""
    out, lines = [], textwrap.dedent(docstring).strip("\n").splitlines()
    code = False
    for line in lines:
        indented = line.startswith("    ")
        if indented != code and (line or code):
            if indented:
                out.append("```python")
            elif code:
                while out[-1] == "":
                    out.pop()
                out += ["```", ""]
            code = indented
        out.append(line.removeprefix("    ") if code else line)
    return "\n".join(out + ["```"] * code)


def docstring(node):
    text = ast.get_docstring(node, clean=True)
    assert text, f"{node.name} has no docstring"
    return markdown(text)


def signature(function, of=""):
    arguments = copy.deepcopy(function.args)
    if of:
        del arguments.args[0]  # self
    for argument in [*arguments.args, *arguments.kwonlyargs]:
        argument.annotation = None
    return f"{of}{function.name}({ast.unparse(arguments)})"


FIRST = ["load", "Model", "Session"]  # on the page; the others in the order of the sources


def python_api():
    package = ast.parse((ROOT / "python/heddle/__init__.py").read_text())
    out = ["# The Python interface", "",
           "Made from the docstrings of [python/heddle](../../python/heddle), a package of `ctypes` and NumPy alone: `pip install` its",
           "[wheel](../building.md#python-wheels), or put that folder's parent on `PYTHONPATH`.", "", docstring_of_module(package), ""]
    exported = next(ast.literal_eval(s.value) for s in package.body if isinstance(s, ast.Assign) and s.targets[0].id == "__all__")
    nodes = {}
    for path in ("_c.py", "model.py", "session.py", "device.py", "parameters.py"):
        for node in ast.parse((ROOT / "python/heddle" / path).read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                nodes[node.name] = node
    for name in sorted(exported, key=[*FIRST, *(name for name in nodes if name not in FIRST)].index):
        node = nodes[name]
        if isinstance(node, ast.FunctionDef):
            out += [f"## heddle.{signature(node)}", "", docstring(node), ""]
            continue
        out += [f"## class heddle.{name}", "", docstring(node), ""]
        fields = [f"{s.target.id}: {ast.unparse(s.annotation)}" for s in node.body if isinstance(s, ast.AnnAssign)]
        if fields:
            out += ["Fields: " + ", ".join(f"`{field}`" for field in fields) + ".", ""]
        inherited = [nodes[base.attr].body for base in node.bases if getattr(base, "attr", "") in nodes]  # of a class in _c.py
        for method in sum(inherited, node.body):
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and not method.name.startswith("_"):
                is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list)
                what = f"{name.lower()}.{method.name}" if is_property else signature(method, f"{name.lower()}.")
                out += [f"### {what}", "", docstring(method), ""]
    return "\n".join(out)


def docstring_of_module(tree):
    return markdown(ast.get_docstring(tree, clean=True))


# ------------------------------------------------------------------------------ C
INTERNAL = re.compile(r"\b(?:heddle_pass_on|heddle_fail|heddle_spell|heddle_is_whole|heddle_api|heddle_head|heddle_message|heddle_messages|heddle_error_text|HEDDLE_CALL)\b")  # of the loader


def c_text(lines):
    """`//` lines as Markdown: indented ones become code."""
    out, code = [], False
    for line in (re.sub(r"^// ?", "", line) for line in lines):
        if (line.startswith("    ") or (code and not line)) != code:
            out += ["```c"] if not code else ["```", ""]
            code = not code
        if line.startswith("- ") and out[-1] and not out[-1].startswith(("- ", "  ")):
            out.append("")
        out.append(line[4:] if code else line)
    text = "\n".join(out + ["```"] * code)
    return re.sub(r"\n+```\n", "\n```\n", text)


def c_items(lines):
    """The header's parts in their order: ("section", title, comment), ("text", "", comment) and ("code", code, comment)."""
    comment, i = [], 0
    while i < len(lines):
        line, i = lines[i], i + 1
        if section := re.fullmatch(r"// ---- (.*) ----", line):
            yield "section", section[1], []
        elif line.startswith("//"):
            comment.append(line)
        elif line.startswith(("typedef ", "struct ", "enum ", "static inline ")):
            code = [line]
            ends = (lambda: "{" in code[-1]) if line.startswith("static") else \
                (lambda: re.search(r"^\}.*;|^[^{]*;( *//.*)?$", code[-1]) and (code[-1][0] == "}" or "{" not in code[0]))
            while not ends():
                code, i = [*code, lines[i]], i + 1
            if line.startswith("static"):
                if not code[-1].endswith("}"):
                    i = lines.index("}", i) + 1
                head = re.sub(r"\s+", " ", " ".join(code))
                code = [head.partition(" {")[0].removeprefix("static inline ") + ";"]
            yield "code", "\n".join(code), comment
            comment = []
        else:  # a blank line or a macro: the comment above stands by itself
            if comment and not INTERNAL.search(line) and "__attribute__" not in line:
                yield "text", "", comment
            comment = []


def c_api():
    lines = (ROOT / "runtime/heddle.h").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    out = ["# The C interface", "", "Made from the comments of [runtime/heddle.h](../../runtime/heddle.h), which stands in every compiled library's folder.", "",
           c_text(lines[:first]), "", "## Types"]
    before = ""
    for kind, what, comment in c_items(lines[first:]):
        if kind == "section":
            title, _, note = what.partition(". ")
            out += ["", f"## {title}"] + (["", note] if note else [])
        elif kind == "text":
            out += ["", c_text(comment)]
        elif not INTERNAL.search(what.partition("(")[0]):
            if comment or before != "code" or out[-1] != "```":
                out += [""] + ([c_text(comment), ""] if comment else []) + ["```c", what, "```"]
            else:
                out[-1:] = [what, "```"]  # several under one comment
        before = kind
    return "\n".join(out) + "\n"


PAGES_MADE = {"errors.md": error_index, "python.md": python_api, "c.md": c_api}  # each from one function


def pages():
    """Path and text of every page that is made from sources."""
    made = {PAGES / name: make() for name, make in PAGES_MADE.items()}
    prelude = PAGES / "prelude.md"
    made[prelude] = with_prelude(prelude.read_text())
    return made
