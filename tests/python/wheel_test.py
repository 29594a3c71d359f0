"""The wheel works in a new virtual environment, without a compiler, a clone or the system's image libraries."""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys, torch, slipstream as ss
assert ss.__file__.startswith(sys.prefix), ss.__file__
data = ss.ImageFolder("photos", ss.transforms.Resize((16, 16)))
loader = ss.DataLoader(data, batch_size=4, shuffle=True, seed=0)
pipe = ss.Pipeline(loader, [("scale", lambda x: x.float() / 255)])
print(sum(len(labels) for _, labels in pipe))
libraries = open("/proc/self/maps").read()
names = ["jpeg", "png", "zstd", "lz4"]
names += [name for name, format in (("gif", "GIF"), ("tiff", "TIFF"), ("webp", "WebP")) if ss._native.can_decode(format)]
for name in names:
    assert f"slipstream.libs/lib{name}" in libraries, name
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def check_contents(wheel):
    minor = ".".join(torch.__version__.split(".")[:2])
    version = f"0.1.0+torch{minor}.cu{torch.version.cuda.split('.')[0]}"
    assert wheel.name.startswith(f"slipstream-{version}-cp"), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"slipstream/py.typed", "slipstream/_native.pyi", "slipstream/_built_for.py"} <= {*names}, names
        # JBIG-KIT, which libtiff links, is under the GPL: scripts/no_jbig.c takes its place.
        for name in names:
            assert "libjbig" not in name or b"this build does not include JBIG" in archive.read(name), name
        (described,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        lines = archive.read(described).decode().splitlines()
    assert {f"Version: {version}", f"Requires-Dist: torch=={minor}.*", "Requires-Python: >=3.10"} <= {*lines}, lines


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(ROOT / "scripts" / "wheel.sh", folder / "wheels", os.environ["BUILD_DIR"])
        (wheel,) = (folder / "wheels").glob("slipstream-*.whl")
        check_contents(wheel)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", wheel.parent,
            "slipstream")
        (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
        (packages / "torch.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
        alone = {"PATH": str(python.parent), "HOME": str(folder)}
        version = run(python.parent / "slipstream", "--version", env=alone)
        assert version == run(python, "-m", "slipstream", "--version", env=alone) and "slipstream 0.1.0" in version
        run(python.parent / "slipstream", "make-data", "classification", "--out", folder / "photos", "--samples", 20,
            "--size", 24, env=alone)
        assert run(python, "-c", PROGRAM, env=alone, cwd=folder).strip() == "20"
        described = run(python, "-m", "pip", "show", "slipstream", env=alone)
        assert "Requires: torch" in described, described


if __name__ == "__main__":
    sys.exit(main())
