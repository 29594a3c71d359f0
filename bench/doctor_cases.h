#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/pipeline_model.h"
#include "slipstream/engine/pipeline.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {

inline constexpr std::size_t kCaseBatch = 8;
inline constexpr double kCaseStepS = 0.02;  ///< duration of the training step

/// Settings of a pipeline with the steps read, decode, [shrink], [a transform that really
/// computes], resize, first and second, and training on images of `size`.
struct CaseSettings {
  SyntheticCost read = {}, decode = {}, first = {}, second = {};
  double copy_s = 0;
  double train_s = kCaseStepS;
  bool is_pinned = true;
  std::int64_t size = 32;
  /// side of synthetic images; large ones cost much time to create
  std::int64_t raw_size = 32;
  std::int64_t jpeg_size = 0;  ///< side of the files' images; 0: no such files
  std::int64_t png_size = 0;
  std::int64_t npy_size = 0;
  bool shrinks = false;        ///< adds a resize to 256 x 256
  std::string_view work = {};  ///< "blur", "jitter" or "rotate"; "": none
};

/// Settings of the same pipeline without one of the causes.
struct Fix {
  Bottleneck group;
  CaseSettings made = {};
  /// steps whose new costs are passed to the doctor as assumptions; none: no prediction is
  /// requested
  std::vector<std::string> steps = {};
  /// alternatively, the id of the doctor's change that has this effect
  std::string change = {};
  unsigned workers = 0;  ///< alternatively, a number of workers; 0: unchanged
};

struct Case {
  std::string name;
  unsigned workers = 2;
  bool is_real = false;  ///< does real work instead of sleeping for stated costs
  CaseSettings now = {};
  std::vector<Fix> fixes = {};           ///< the bottleneck is the one whose fix gains most
  std::vector<Bottleneck> allowed = {};  ///< further verdicts that are accepted
};

std::vector<Case> doctor_cases(bool on_gpu);
Pipeline build_pipeline(const CaseSettings& made);

}  // namespace slipstream
