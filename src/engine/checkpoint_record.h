#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {

/// The best score of a training so far.
struct BestScore {
  std::string metric;      ///< its name, such as "top1"
  double value = 0;        ///< finite
  std::uint64_t step = 0;  ///< of the checkpoint that had it
  bool operator==(const BestScore&) const = default;
};

/// What a checkpoint holds beside its tensors: its file checkpoint.json.
struct CheckpointRecord {
  std::uint64_t step = 0;  ///< steps that were trained: the number of the next one
  double epoch = 0;        ///< the same in epochs
  std::uint64_t seed = 0;
  std::uint64_t batch_size = 0;
  std::uint64_t samples = 0;      ///< of the data set
  std::uint64_t accumulate = 1;   ///< batches for an update of the weights
  std::uint64_t data = 0;         ///< Dataset::identity()
  std::string order = {};         ///< in words, how samples follow each other
  std::uint64_t loss_digest = 0;  ///< State::loss_digest
  /// State::epoch_losses: the sum, which may be NaN, and the number of losses in it. A record of an
  /// earlier version has neither.
  double epoch_loss_sum = 0;
  std::uint64_t epoch_loss_steps = 0;
  std::optional<BestScore> best = std::nullopt;
  std::uint64_t epochs_since_best = 0;
  std::uint64_t scored_step = 0;  ///< of the last evaluation; 0: there was none
  /// The best value of each score, in the order of the scores. Empty in a record of an earlier
  /// version.
  std::vector<BestScore> best_scores = {};
  /// Of the tensors in each file.
  std::map<std::string, std::uint64_t> fingerprints = {};
  std::string plan = {};     ///< JSON; "": none
  std::string notes = {};    ///< JSON, what else is to be known of the training; "": nothing
  std::string program = {};  ///< version of the program that wrote it
  bool operator==(const CheckpointRecord&) const = default;
};

/// The name of the file.
inline constexpr const char* kRecordFile = "checkpoint.json";

/// A checkpoint that a later program wrote.
class LaterCheckpoint : public Refused {
 public:
  using Refused::Refused;
};

/// With a fingerprint of itself. REQUIRES: what is JSON in it is, and values are finite
std::string to_json_text(const CheckpointRecord& record);
/// Throws Refused with all that is wrong, also where it is not as to_json_text() wrote it, and
/// LaterCheckpoint.
CheckpointRecord parse_checkpoint_record(std::string_view json);

}  // namespace slipstream
