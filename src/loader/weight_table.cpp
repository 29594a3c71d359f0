#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "loader/draw_table.h"
#include "loader/permutation.h"

namespace slipstream {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr unsigned kPlaceBits = 32;

/// Returns the weights multiplied by one power of two and rounded down, such that their sum is
/// below 2^63. Nothing else is rounded, so the result is the same on all machines.
std::vector<std::uint64_t> whole_weights(const std::vector<double>& weights) {
  int exponent = 0;
  std::frexp(*std::max_element(weights.begin(), weights.end()), &exponent);
  const int bits = std::countl_zero(weights.size()) - 1;
  std::vector<std::uint64_t> whole;
  whole.reserve(weights.size());
  for (const double weight : weights) {
    whole.push_back(static_cast<std::uint64_t>(std::ldexp(weight, bits - exponent)));
  }
  return whole;
}

}  // namespace

WeightTable::WeightTable(const std::vector<double>& weights) : starts_(whole_weights(weights)) {
  const std::uint64_t sum = std::accumulate(starts_.begin(), starts_.end(), std::uint64_t{0});
  const Wide line = Wide{size()} << kPlaceBits;
  std::uint64_t before = 0;
  std::uint64_t start = 0;
  for (std::uint64_t& entry : starts_) {
    before += entry;
    const auto end = static_cast<std::uint64_t>(before * line / sum);
    if (end > start) {
      const std::uint64_t places = ((end - 1) >> kPlaceBits) - (start >> kPlaceBits) + 1;
      occurrences_ = std::max(occurrences_, places);
    }
    entry = start;
    start = end;
  }
}

TakenSample WeightTable::take(const OrderSeed& order, std::uint32_t epoch,
                              std::uint64_t position) const {
  const std::uint64_t place =
      order.shuffle ? permuted(position, size(), {order.seed, OrderPurpose::places, epoch, 0})
                    : position;
  const std::uint32_t part = order_word({order.seed, OrderPurpose::weights, epoch, 0},
                                        static_cast<std::uint32_t>(place), 0);
  const auto behind =
      std::upper_bound(starts_.begin(), starts_.end(), place << kPlaceBits | part) - 1;
  return {static_cast<std::uint64_t>(behind - starts_.begin()), place - (*behind >> kPlaceBits)};
}

}  // namespace slipstream
