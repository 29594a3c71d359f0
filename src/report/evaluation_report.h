#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace slipstream {

/// How one class came out.
struct ClassRow {
  std::string name;          ///< its number where it has no name
  std::uint64_t labels = 0;  ///< samples, or pixels, of the class
  double accuracy = 0;       ///< share of them that were predicted; NaN where there are none
  double iou = 0;            ///< intersection / union of labels and predictions; NaN for neither
};

/// The rows of a confusion matrix: `counts[i * classes + j]` labels i for which j was predicted.
std::vector<ClassRow> class_rows(const std::vector<double>& counts,
                                 const std::vector<std::string>& names);

/// Of the score of this name: a loss is better when it is lower, any other one when it is higher.
bool is_better_score(const std::string& name, double value, double than);
/// A row for each score: the last value, the best one, and the epoch of that. `earlier`: rows of
/// other runs of the training, or of some of their scores. REQUIRES: at least one row
std::string score_table(const std::vector<ScoreRow>& rows,
                        const std::vector<ScoreRow>& earlier = {});

/// What `eval` found.
struct EvaluationReport {
  Environment environment;
  WorkloadInfo workload;
  std::string weights;  ///< path
  std::uint64_t samples = 0;
  std::vector<std::pair<std::string, double>> scores;
  std::vector<ClassRow> classes;  ///< empty: there is no confusion matrix
  RunResult run;
  bool counts_pixels = true;  ///< whether classes are those of masks, for which IoU is shown
};

/// JSON, schema "slipstream.evaluation" version 1 (docs/run-report.md). Numbers that are not finite
/// become null.
std::string evaluation_report_json(const EvaluationReport& report);
/// The scores in a line each, then a row for each class; of more than 40 classes the 20 with the
/// lowest and the 20 with the highest accuracy.
std::string evaluation_text(const EvaluationReport& report);

}  // namespace slipstream
