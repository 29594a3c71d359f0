#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "engine/graph_recorder.h"

namespace slipstream::test {

/// What FakeRecorder did. One thread at a time may change it.
struct Recordings {
  std::size_t records = 0, replays = 0;
  double error = 0;     ///< each replay adds it to the first tensor that the work computed
  std::string failure;  ///< message of the exception that record() throws after the work; "": none
  /// Saves the state that the work changes, and returns a function that restores it. record() then
  /// changes nothing, as the capture of a CUDA graph.
  std::function<std::function<void()>()> save = [] { return [] {}; };
};

/// Takes the place of a recorder of CUDA graphs: a replay calls the work again, and copies what it
/// computes to the memory of the tensors that it computed first.
class FakeRecorder final : public GraphRecorder {
 public:
  explicit FakeRecorder(std::shared_ptr<Recordings> recordings) : recordings_(recordings) {}

  std::unique_ptr<RecordedWork> record(const Work& work) override;

 private:
  std::shared_ptr<Recordings> recordings_;
};

}  // namespace slipstream::test
