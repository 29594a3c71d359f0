#pragma once

#include <cstdlib>
#include <cstring>

#include "datasets/stamped_file.h"

namespace slipstream {

/// A fuzzer's input as a file; reading beyond its end is a finding.
class InputSource final : public ByteSource {
 public:
  explicit InputSource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset) std::abort();
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace slipstream
