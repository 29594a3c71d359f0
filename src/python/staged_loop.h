#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "python/draws.h"
#include "python/feed.h"

namespace slipstream {

/// What is done to each batch ahead of a loop's body, on a lane of its own.
struct LoopStage {
  std::string name;
  pybind11::function apply;       ///< of a whole batch, gives it changed
  std::vector<at::Tensor> reads;  ///< weights and buffers, which must not change meanwhile
  std::optional<std::uint64_t> seed;
};

/// One pass over a feed: batches are copied and go through the stages ahead of a body, which is the
/// caller's work between two calls of next(), on the caller's current stream.
class StagedLoop final : Work {
 public:
  /// `lanes`: that of the copies, one for each stage, that of the caller. They must outlive this.
  /// `epoch`: of the keys of stages with a seed, with the batch's number.
  StagedLoop(std::shared_ptr<Feed> feed, std::vector<LoopStage> stages, std::vector<Lane*> lanes,
             c10::Device device, std::size_t run_ahead, std::uint64_t epoch);
  ~StagedLoop() override;
  StagedLoop(const StagedLoop&) = delete;
  StagedLoop& operator=(const StagedLoop&) = delete;

  /// The next batch; nothing at the end. The caller's current stream waits for it. Needs Python's
  /// lock, as all below. Throws what a stage or the feed threw.
  std::optional<pybind11::object> next();
  /// Ends the pass, wherever it is. The host waits for nothing.
  void close();
  /// The stage that failed; "" where none did.
  const std::string& failed() const { return failed_; }

 private:
  /// What a lane made of the batch in a slot.
  struct Part {
    pybind11::object value;
    std::vector<c10::Storage> own;  ///< whose memory is the lane's
  };

  bool input_ready(std::uint64_t batch) override;
  void await_input(std::uint64_t) override {}
  void drop(std::size_t lane, std::size_t slot) override;
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override;
  void retired(std::uint64_t, std::span<const Mark* const>, std::span<const Mark* const>) override {
  }

  bool is_over();
  void begin();
  void take_back(std::uint64_t batch);
  void copy(Part& part);
  void run_stage(std::size_t stage, std::uint64_t batch, const Part& from, Part& part);
  void keep_own(std::size_t lane, std::size_t slot);
  void check_reads(std::size_t stage);

  std::shared_ptr<Feed> feed_;
  std::vector<LoopStage> stages_;
  std::vector<Lane*> lanes_;
  c10::Device device_;
  std::uint64_t epoch_;
  std::vector<std::vector<Part>> parts_;              ///< [slot][lane]
  std::vector<std::vector<std::uint32_t>> versions_;  ///< of each stage's reads
  std::unique_ptr<Mark> entry_;
  DrawOrder draws_;
  bool has_begun_ = false, is_closed_ = false;
  bool has_item_ = false, has_ended_ = false;
  std::uint64_t given_ = 0;  ///< batches that the caller has had
  std::string failed_;
  const std::function<bool()> stop_;
  Schedule schedule_;
};

}  // namespace slipstream
