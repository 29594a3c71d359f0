#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>

#include "cuda/cuda.h"

namespace slipstream::bench {

/// Runs the benchmarks that `register_all` registers. Without a GPU, prints a message and fails.
template <typename Register>
int main_on_device(int argc, char** argv, Register register_all) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto devices = cuda::devices();
  if (devices.empty()) {
    std::fputs("no usable GPU\n", stderr);
    return 1;
  }
  benchmark::AddCustomContext("gpu", devices[0].name);
  benchmark::AddCustomContext("driver", cuda::driver_version());
  for (const std::string& sentence : cuda::overlap_hindrances()) {
    benchmark::AddCustomContext("warning", sentence);
  }
  register_all(devices[0]);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace slipstream::bench
