#include "core/fork_trial.h"

#include <algorithm>
#include <utility>

namespace slipstream {
namespace {

constexpr std::size_t kForms = 2;

}  // namespace

ForkTrial::Pass::Pass(Lane& home) : home_(home) { mark(); }

void ForkTrial::Pass::mark() {
  marks_.push_back(home_.make_mark());
  home_.record(*marks_.back());
}

std::shared_ptr<ForkTrial::Call> ForkTrial::next() {
  if (is_decided()) return nullptr;
  if (calls_ == kForms * (kWarmUpCalls + kMeasuredCalls)) {
    if (all_reached()) decide();
    return nullptr;
  }
  auto call = std::make_shared<Call>();
  // The forms alternate, so that a slow change of clock rate or load affects both alike.
  call->on_streams = calls_ % kForms == 1;
  if (calls_++ >= kForms * kWarmUpCalls) kept_.push_back(call);
  return call;
}

std::string_view ForkTrial::reason() const {
  const bool is_beyond_noise = measured_.n > 1 && (measured_.low > 1 || measured_.high < 1);
  return is_beyond_noise ? "faster" : "the difference is within the noise";
}

bool ForkTrial::all_reached() const {
  const auto reached = [](const Pass& pass) { return pass.marks_.back()->reached(); };
  return std::all_of(kept_.begin(), kept_.end(), [&](const auto& call) {
    return std::all_of(call->passes.begin(), call->passes.end(), reached);
  });
}

void ForkTrial::decide() {
  std::vector<double> predicted, measured;
  for (std::size_t i = 0; i + 1 < kept_.size(); i += kForms) {
    // A pass that threw is missing, so the two calls did different work.
    if (kept_[i]->passes.size() != kept_[i + 1]->passes.size()) continue;
    double streams_s = 0, sum_s = 0, longest_s = 0;
    for (const Pass& pass : kept_[i + 1]->passes)
      streams_s += pass.marks_.back()->seconds_after(*pass.marks_.front());
    for (const Pass& pass : kept_[i]->passes) {
      double longest = 0;
      for (std::size_t k = 1; k < pass.marks_.size(); ++k)
        longest = std::max(longest, pass.marks_[k]->seconds_after(*pass.marks_[k - 1]));
      longest_s += longest;
      sum_s += pass.marks_.back()->seconds_after(*pass.marks_.front());
    }
    if (streams_s <= 0 || longest_s <= 0) continue;
    measured.push_back(sum_s / streams_s);
    predicted.push_back(sum_s / longest_s);
  }
  kept_.clear();
  // If no pair could be compared, measured() stays empty and the trial starts again.
  calls_ = 0;
  if (measured.empty()) return;
  measured_ = median_interval(measured, "1");
  predicted_ = median_interval(predicted, "1");
}

}  // namespace slipstream
