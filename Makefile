PREFIX ?= /usr/local

.PHONY: build release wheel reference install test check check-all demo format clean setup

build: setup  ## build/slipstream and the example, for the GPU at hand
	. build/env.sh && cmake --preset release >build/configure.log && \
	    cmake --build build --target slipstream_main custom_pipeline

release: setup  ## build/dist/slipstream, for all GPUs from sm_75 to sm_120
	. build/env.sh && cmake --preset dist && cmake --build build/dist

wheel:  ## build/wheels/slipstream-*.whl, the Python package for the PyTorch at hand and all GPUs from sm_75 to sm_120
	scripts/setup.sh --wheel
	scripts/wheel.sh build/wheels

reference:  ## build/reference/slipstream.html, every class, function and argument of the Python package
	scripts/setup.sh --lint
	. build/env.sh && cmake --preset release >build/configure.log && \
	    cmake --build build --target slipstream_python && PYTHONPATH=build/python scripts/reference.py build/reference

install: build  ## program, libslipstream.so, headers and CMake package, into PREFIX
	. build/env.sh && cmake --build build --target slipstream_package && \
	    cmake --install build --prefix "$(PREFIX)"

test:  ## what CI runs
	scripts/test.sh

check-all:  ## the sanitizers and clang's checks on everything as well
	scripts/test.sh all

check: setup  ## the tests without Torch alone
	scripts/test.sh check

demo: build
	scripts/demo.sh

format:
	scripts/test.sh format

setup:
	@scripts/setup.sh

clean:
	rm -rf build
