"""What the examples have in common: a folder as Hugging Face saves it, compiled the first time it is used."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import heddle  # noqa: E402


def add_options(parser):
    parser.add_argument("folder", type=Path)
    parser.add_argument("--library", type=Path, help="where the compiled model is kept; FOLDER-compiled if not given")
    parser.add_argument("--heddle", default="heddle", help="the command that compiles it")


def load(options):
    """The model of these options."""
    library = options.library or options.folder.with_name(options.folder.name + "-compiled")
    if not library.exists():
        print(f"compiling {options.folder} to {library}", file=sys.stderr)
        try:
            subprocess.run([options.heddle, "compile", options.folder, "-o", library], check=True, stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            sys.exit(f"error: there is no command `{options.heddle}`; install the wheel heddle-compiler, or say --heddle FILE")
        except subprocess.CalledProcessError as failed:  # it has said why
            sys.exit(failed.returncode)
    return heddle.load(library)
