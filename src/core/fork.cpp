#include "core/fork.h"

#include <exception>
#include <utility>

namespace slipstream {

Fork::Fork(Lane& home, MakeLane make)
    : home_(home), make_(std::move(make)), forked_(home.make_mark()) {}

void Fork::run(std::size_t branches, ForkPass pass, const ForkProbe* probe, const Work& work) {
  const auto skips = [&](ForkWait wait) {
    return probe != nullptr && probe->skip && probe->skip(pass, wait);
  };
  const auto delay = [&](Lane& lane, bool first) {
    if (probe != nullptr && probe->delay) probe->delay(lane, first);
  };
  // Lanes are created before the fork's mark is recorded, so a failure here leaves nothing to join.
  while (branches_.size() < branches) {
    auto lane = make_(branches_.size());
    auto done = lane->make_mark();
    branches_.push_back({std::move(lane), std::move(done)});
  }
  home_.record(*forked_);
  std::size_t begun = 0;
  std::exception_ptr error;
  try {
    while (begun < branches) {
      Lane& lane = *branches_[begun].lane;
      if (!skips(ForkWait::fork)) lane.wait(*forked_);
      // Counted before the work begins: a branch that throws may have enqueued work already, so it
      // must be joined as well.
      const std::size_t branch = begun++;
      delay(lane, true);
      work(branch, lane);
      delay(lane, false);
    }
  } catch (...) {
    error = std::current_exception();
  }
  // The branches are joined after an exception, too. Otherwise memory that they still use could be
  // freed and reused.
  join(begun, skips(ForkWait::join));
  if (error) std::rethrow_exception(error);
}

void Fork::join(std::size_t branches, bool skip) {
  for (std::size_t k = 0; k < branches; ++k) {
    branches_[k].lane->record(*branches_[k].done);
    if (!skip) home_.wait(*branches_[k].done);
  }
}

}  // namespace slipstream
