#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace slipstream::test {

/// Mean and maximum difference between the bytes of two images of the same size.
struct Difference {
  double mean = 0;
  int most = 0;
};

inline Difference difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  Difference result;
  if (a.size() != b.size()) return {256, 256};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int apart = std::abs(std::to_integer<int>(a[i]) - std::to_integer<int>(b[i]));
    result.most = std::max(result.most, apart);
    result.mean += apart;
  }
  if (!a.empty()) result.mean /= static_cast<double>(a.size());
  return result;
}

}  // namespace slipstream::test
