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
  std::uint64_t step = 0;  ///< step of the checkpoint with this value
  bool operator==(const BestScore&) const = default;
};

/// The part of a checkpoint that is not tensors: its file checkpoint.json.
struct CheckpointRecord {
  std::uint64_t step = 0;  ///< number of trained steps, which is the number of the next step
  double epoch = 0;        ///< `step` in epochs
  std::uint64_t seed = 0;
  std::uint64_t batch_size = 0;
  std::uint64_t samples = 0;      ///< samples in the data set
  std::uint64_t accumulate = 1;   ///< batches per update of the weights
  std::uint64_t data = 0;         ///< Dataset::identity()
  std::string order = {};         ///< description of the order of samples
  std::uint64_t loss_digest = 0;  ///< State::loss_digest
  /// State::epoch_losses: the sum, which may be NaN, and the number of losses in it. A record of an
  /// earlier version has neither value.
  double epoch_loss_sum = 0;
  std::uint64_t epoch_loss_steps = 0;
  std::optional<BestScore> best = std::nullopt;
  std::uint64_t epochs_since_best = 0;
  std::uint64_t scored_step = 0;  ///< step of the last evaluation; 0: there was none
  /// The best value of each score, in the order of the scores. Empty in a record of an earlier
  /// version.
  std::vector<BestScore> best_scores = {};
  /// Fingerprint of the tensors in each file, by file name.
  std::map<std::string, std::uint64_t> fingerprints = {};
  std::string plan = {};     ///< JSON; "": none
  std::string notes = {};    ///< JSON, further information on the training; "": none
  std::string program = {};  ///< version of the program that wrote it
  bool operator==(const CheckpointRecord&) const = default;
};

/// Name of the file that contains the record.
inline constexpr const char* kRecordFile = "checkpoint.json";

/// Thrown for a checkpoint that a later version of the program wrote.
class LaterCheckpoint : public Refused {
 public:
  using Refused::Refused;
};

/// Returns the record as JSON that includes a fingerprint of the document itself. REQUIRES: the
/// members for JSON contain valid JSON, and values are finite
std::string to_json_text(const CheckpointRecord& record);
/// Parses a record. Throws Refused with all problems, also if the text was changed after
/// to_json_text() wrote it, and LaterCheckpoint.
CheckpointRecord parse_checkpoint_record(std::string_view json);

}  // namespace slipstream
