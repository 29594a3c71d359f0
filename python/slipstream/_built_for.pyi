"""Versions that the compiled module was built for. CMake writes this module (src/bindings/CMakeLists.txt)."""

TORCH: str  # minor version, for example "2.15"
CUDA: str  # major version, for example "13"
