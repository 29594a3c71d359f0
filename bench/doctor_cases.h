#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/pipeline_model.h"
#include "slipstream/engine/pipeline.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {

inline constexpr std::size_t kCaseBatch = 8;
inline constexpr double kCaseStepS = 0.02;  ///< that training waits for, a batch

/// What a pipeline is made of: read, decode, [shrink], [a transform that works], resize, first,
/// second, then training on images of `size`.
struct CaseSettings {
  SyntheticCost read = {}, decode = {}, first = {}, second = {};
  double copy_s = 0;
  double train_s = kCaseStepS;
  bool is_pinned = true;
  std::int64_t size = 32;
  std::int64_t raw_size = 32;  ///< of synthetic images, which are costly to make
  std::int64_t jpeg_size = 0;  ///< of files; 0: none
  std::int64_t png_size = 0;
  std::int64_t npy_size = 0;
  bool shrinks = false;        ///< to 256 x 256
  std::string_view work = {};  ///< "blur", "jitter" or "rotate"; "": none
};

/// The same with a cause taken away.
struct Fix {
  Bottleneck group;
  CaseSettings made = {};
  std::vector<std::string> steps = {};  ///< whose costs the doctor is told; none: it is not asked
  std::string change = {};              ///< or the change that it says has this effect
  unsigned workers = 0;                 ///< or so many workers; 0: as many as the case
};

struct Case {
  std::string name;
  unsigned workers = 2;
  bool is_real = false;  ///< does real work, rather than to cost what is stated
  CaseSettings now = {};
  std::vector<Fix> fixes = {};           ///< the bottleneck is that whose fix gains most
  std::vector<Bottleneck> allowed = {};  ///< verdicts that are right besides
};

std::vector<Case> doctor_cases(bool on_gpu);
Pipeline build_pipeline(const CaseSettings& made);

}  // namespace slipstream
