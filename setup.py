"""What pyproject.toml cannot say: a wheel has the data sets inside the package, where `lab.stream.datasets` finds them."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithDataSets(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "lab", "datasets")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree("datasets", folder, ignore=shutil.ignore_patterns("make.py", "__pycache__", ".*"))


setup(cmdclass={"build_py": WithDataSets})
