#!/usr/bin/env python3
"""try_wheels.py in a Debian 12 that has nothing else: a chroot with `python3-venv` and `g++`, made by debootstrap.

    try_in_chroot.py heddle-….whl heddle_compiler-….whl

It needs root, debootstrap and Debian's archive. The system is made anew each time and removed afterwards."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = "ca-certificates,python3-venv,g++"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


def main(wheels):
    if os.geteuid() or not shutil.which("debootstrap"):
        sys.exit("a chroot needs root and the Debian package debootstrap")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        root = Path(scratch) / "debian"
        print(f"making {root} (Debian 12 with {PACKAGES})", flush=True)
        log = Path(scratch) / "log"
        with log.open("w") as out:
            made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root], stdout=out, stderr=out)
        if made.returncode:
            sys.exit(f"debootstrap failed:\n{log.read_text()[-2000:]}")
        shutil.copy("/etc/resolv.conf", root / "etc")
        shutil.copy(f"/{CERTIFICATES}", root / CERTIFICATES)  # the machine may have some of its own
        (root / "trial").mkdir()
        for path in [Path(__file__).with_name("try_wheels.py"), *map(Path, wheels)]:
            shutil.copy(path, root / "trial")
        # /proc and /dev in a namespace of its own: they are gone when the command ends.
        inside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
        kept = {name: os.environ[name] for name in os.environ if name.upper().endswith("_PROXY") or name == "PIP_CERT"}
        done = subprocess.run(["unshare", "--mount", "sh", "-c", inside, root, "python3", "/trial/try_wheels.py",
                               *(f"/trial/{Path(wheel).name}" for wheel in wheels)],
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **kept})  # fmt: skip
        sys.exit(done.returncode)


main(sys.argv[1:])
