#include "core/fingerprint.h"

#include <random>

#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using test::DeviceBuffer;

std::vector<unsigned char> random_bytes(std::size_t count) {
  std::mt19937_64 random(count + 1);
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

class FingerprintGpuTest : public test::GpuTest {
 protected:
  // The digest has a canary on both sides; the data ends at the end of its allocation.
  std::uint64_t fingerprint_on_device(const std::vector<unsigned char>& data) {
    const Stream stream(0);
    const DeviceBuffer<unsigned char> memory(data);
    const DeviceBuffer<std::uint64_t> digest(std::vector<std::uint64_t>{7, 0, 7});
    fingerprint_async(memory.get(), data.size(), digest.get() + 1, stream);
    stream.synchronize();
    EXPECT_EQ(memory.read(), data);
    const std::vector<std::uint64_t> result = digest.read();
    EXPECT_EQ(result[0], 7U);
    EXPECT_EQ(result[2], 7U);
    return result[1];
  }
};

TEST_F(FingerprintGpuTest, MatchesHostForSmallSizes) {
  for (std::size_t bytes = 0; bytes <= 70; ++bytes) {
    const std::vector<unsigned char> data = random_bytes(bytes);
    EXPECT_EQ(fingerprint_on_device(data), fingerprint(data.data(), bytes)) << bytes << " bytes";
  }
}

TEST_F(FingerprintGpuTest, MatchesHostForLargeAndOddSizes) {
  for (const std::size_t bytes : {4095, 4096, 4097, 65'521, 1'000'003, 16'777'216, 70'000'009}) {
    const std::vector<unsigned char> data = random_bytes(bytes);
    EXPECT_EQ(fingerprint_on_device(data), fingerprint(data.data(), bytes)) << bytes << " bytes";
  }
}

TEST_F(FingerprintGpuTest, AddsToExistingDigest) {
  const std::vector<unsigned char> data = random_bytes(1000);
  const Stream stream(0);
  const DeviceBuffer<unsigned char> memory(data);
  const DeviceBuffer<std::uint64_t> digest(std::vector<std::uint64_t>{5});
  fingerprint_async(memory.get(), 1000, digest.get(), stream);
  fingerprint_async(memory.get(), 1000, digest.get(), stream);
  stream.synchronize();
  EXPECT_EQ(digest.read()[0], 5 + 2 * fingerprint(data.data(), 1000));
}

TEST_F(FingerprintGpuTest, MatchesHostAtEveryOffset) {
  const Stream stream(0);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{31},
                                  std::size_t{4099}, std::size_t{1'000'003}}) {
    const std::vector<unsigned char> data = random_bytes(bytes + 17);
    const DeviceBuffer<unsigned char> memory(data);
    for (std::size_t offset = 0; offset <= 17; ++offset) {
      const DeviceBuffer<std::uint64_t> digest(1);
      fingerprint_async(memory.get() + offset, bytes, digest.get(), stream);
      stream.synchronize();
      EXPECT_EQ(digest.read()[0], fingerprint(data.data() + offset, bytes))
          << bytes << " bytes at " << offset;
    }
  }
}

}  // namespace
}  // namespace slipstream::cuda
