#include <gtest/gtest.h>

#include "cuda/augment/executor.h"
#include "cuda/augment/plan.h"
#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::test {
namespace {

constexpr std::size_t kGuard = 512;  // bytes after the batch, which must stay unchanged

}  // namespace

Bytes run_plan(const AugmentPlan& given, std::size_t batch_size, const Bytes& images,
               const Bytes& drawn, std::size_t out_bytes) {
  AugmentPlan plan = given;
  plan.specialize();
  const DeviceBuffer<std::byte> in(images);
  const DeviceBuffer<std::byte> parameters(drawn);
  const DeviceBuffer<std::byte> scratch(plan.scratch_bytes(batch_size), 0x5a);
  const DeviceBuffer<std::byte> to(out_bytes + kGuard, 0xa5);
  const cuda::Stream stream(0);
  cuda::augment_async(plan, batch_size, in.get(), parameters.get(), scratch.get(), to.get(),
                      stream);
  stream.synchronize();
  Bytes result = to.read();
  for (std::size_t i = out_bytes; i < result.size(); ++i) {
    EXPECT_EQ(result[i], std::byte{0xa5}) << "written beyond the end of the batch";
  }
  result.resize(out_bytes);
  return result;
}

void require_executor() { require_gpu(); }

}  // namespace slipstream::test
