#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace slipstream {

/// Results for one class.
struct ClassRow {
  std::string name;          ///< its index if it has no name
  std::uint64_t labels = 0;  ///< samples, or pixels, of the class
  double accuracy = 0;       ///< share of them that were predicted correctly; NaN if there are none
  double iou = 0;  ///< intersection / union of labels and predictions; NaN if there are none
};

/// Computes the rows from a confusion matrix: `counts[i * classes + j]` is the number of labels i
/// that were predicted as j.
std::vector<ClassRow> class_rows(const std::vector<double>& counts,
                                 const std::vector<std::string>& names);

/// Returns true if `value` is better than `than` for the score called `name`. A lower loss is
/// better; for other scores, a higher value is better.
bool is_better_score(const std::string& name, double value, double than);
/// Returns a table with a row for each score: the last value, the best one, and the epoch of the
/// best one. `earlier` holds rows of earlier runs of the training, or of some of their scores.
/// REQUIRES: at least one row
std::string score_table(const std::vector<ScoreRow>& rows,
                        const std::vector<ScoreRow>& earlier = {});

/// Results of `eval`.
struct EvaluationReport {
  Environment environment;
  WorkloadInfo workload;
  std::string weights;  ///< path
  std::uint64_t samples = 0;
  std::vector<std::pair<std::string, double>> scores;
  std::vector<ClassRow> classes;  ///< empty if there is no confusion matrix
  RunResult run;
  bool counts_pixels = true;  ///< true for masks, whose IoU is shown
};

/// Returns JSON, schema "slipstream.evaluation" version 1 (docs/run-report.md). Numbers that are
/// not finite become null.
std::string evaluation_report_json(const EvaluationReport& report);
/// Returns one line for each score, then a row for each class. With more than 40 classes, only the
/// 20 with the lowest and the 20 with the highest accuracy are shown.
std::string evaluation_text(const EvaluationReport& report);

}  // namespace slipstream
