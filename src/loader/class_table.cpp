#include <algorithm>
#include <numeric>

#include "loader/draw_table.h"
#include "loader/permutation.h"

namespace slipstream {

ClassTable::ClassTable(const std::vector<std::int64_t>& labels) : members_(labels.size()) {
  std::iota(members_.begin(), members_.end(), 0U);
  std::stable_sort(members_.begin(), members_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return labels[a] < labels[b]; });
  for (std::uint32_t i = 0; i < members_.size(); ++i) {
    if (i == 0 || labels[members_[i]] != labels[members_[i - 1]]) first_.push_back(i);
  }
  first_.push_back(static_cast<std::uint32_t>(members_.size()));
  rounds_ = (size() + classes() - 1) / classes();
  for (std::uint64_t k = 0; k < classes(); ++k) {
    const std::uint64_t members = first_[k + 1] - first_[k];
    // The first member of an epoch is a multiple of the greatest common divisor of the two numbers.
    // The latest possible one decides how often an epoch can take the same member.
    const std::uint64_t latest_start = members - std::gcd(members, rounds_);
    const std::uint64_t last = latest_start + rounds_ - 1;
    occurrences_ = std::max(occurrences_, last / members + 1);
  }
}

TakenSample ClassTable::take(const OrderSeed& order, std::uint32_t epoch,
                             std::uint64_t position) const {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const std::uint64_t round = position / classes();
  std::uint64_t k = position % classes();
  if (order.shuffle) {
    k = permuted_few(k, classes(), {order.seed, OrderPurpose::classes, epoch, low(round)});
  }
  const std::uint64_t members = first_[k + 1] - first_[k];
  // A class continues in each epoch where the previous one ended. Its position therefore follows
  // from the number of rounds so far, without any stored state.
  const std::uint64_t before = epoch * rounds_;
  const std::uint64_t pass = (before + round) / members;
  std::uint64_t member = (before + round) % members;
  if (order.shuffle) {
    member = permuted_few(member, members, {order.seed, OrderPurpose::members, low(pass), low(k)});
  }
  return {members_[first_[k] + member], pass - before / members};
}

}  // namespace slipstream
