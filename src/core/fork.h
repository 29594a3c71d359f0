#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "slipstream/core/lane.h"

namespace slipstream {

/// Direction of the work in a fork: the forward or the backward pass.
enum class ForkPass : std::uint8_t { forward, backward };
/// The two waits of each branch. fork: the branch's lane waits for the home lane. join: the home
/// lane waits for the branch's lane.
enum class ForkWait : std::uint8_t { fork, join };

/// Hooks that only tests of ordering use.
struct ForkProbe {
  /// Omits a wait of every branch if it returns true.
  std::function<bool(ForkPass, ForkWait)> skip;
  /// Called on a branch's lane immediately before (first = true) and after its work.
  std::function<void(Lane& branch, bool first)> delay;
};

/// A home lane and the lanes that its work branches onto. Work on a branch's lane starts after all
/// work that the home lane had when run() was called. Work that the home lane gets after run()
/// starts after the work of all branches.
///
/// So any lane ordered after the home lane may free memory that belongs to a branch's lane: no
/// branch reuses that memory before the home lane has passed its last use. Memory that belongs to
/// the home lane may be freed once run() has returned.
///
/// Not thread-safe: one call of run() at a time, and no other thread uses the home lane or the
/// lanes of the branches meanwhile.
class Fork {
 public:
  using MakeLane = std::function<std::unique_ptr<Lane>(std::size_t branch)>;
  using Work = std::function<void(std::size_t branch, Lane& lane)>;

  /// `home` must outlive the fork. `make` creates each branch's lane when it is first needed; the
  /// lane is kept until the fork is destroyed.
  Fork(Lane& home, MakeLane make);

  Lane& home() const { return home_; }
  std::size_t lanes() const { return branches_.size(); }

  /// Calls work(k, lane of branch k) for k = 0 ... branches-1, one after the other on the calling
  /// thread. If one throws, later ones are not called; the home lane waits for those that were, and
  /// the exception is rethrown. `probe` may be nullptr.
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
