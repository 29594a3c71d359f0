#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "slipstream/core/lane.h"

namespace slipstream {

/// Which way work goes through a fork.
enum class ForkPass : std::uint8_t { forward, backward };
/// fork: the branch's lane waits for the home lane. join: the home lane waits for the branch's.
enum class ForkWait : std::uint8_t { fork, join };

/// Switches for tests of ordering. None of them is used otherwise.
struct ForkProbe {
  /// Leaves a wait of every branch out.
  std::function<bool(ForkPass, ForkWait)> skip;
  /// Called on a branch's lane right before (first = true) and after its work.
  std::function<void(Lane& branch, bool first)> delay;
};

/// A home lane and the lanes that its work branches onto. Work on a branch's lane begins after all
/// that the home lane held when run() was called, and what the home lane gets after run() begins
/// after all of the branches' work.
///
/// So memory that belongs to a branch's lane may be freed by whoever is ordered behind the home
/// lane: no branch takes it again before the home lane is past its last use. And memory that
/// belongs to the home lane may be freed once run() has returned.
///
/// One call of run() at a time; the home lane and those of its branches are used by nobody else
/// meanwhile.
class Fork {
 public:
  using MakeLane = std::function<std::unique_ptr<Lane>(std::size_t branch)>;
  using Work = std::function<void(std::size_t branch, Lane& lane)>;

  /// `home` must outlive the fork. Lanes come from `make` when they are first needed, for good.
  Fork(Lane& home, MakeLane make);

  Lane& home() const { return home_; }
  std::size_t lanes() const { return branches_.size(); }

  /// Calls work(k, lane of branch k) for k = 0 ... branches-1, in turn on the calling thread. When
  /// one throws, later ones are not called; the home lane waits for those that were, and the
  /// exception comes out. `probe` may be nullptr.
  void run(std::size_t branches, ForkPass pass, const ForkProbe* probe, const Work& work);

 private:
  struct Branch {
    std::unique_ptr<Lane> lane;
    std::unique_ptr<Mark> done;
  };

  void join(std::size_t branches, bool skip);

  Lane& home_;
  MakeLane make_;
  std::unique_ptr<Mark> forked_;
  std::vector<Branch> branches_;
};

}  // namespace slipstream
