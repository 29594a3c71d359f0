#pragma once

#include <memory>
#include <string>

#include "cli/common_options.h"
#include "slipstream/engine/evaluation.h"
#include "tools/preview_sheet.h"

namespace slipstream {

/// The option --preview.
struct PreviewFlag {
  std::string path;  ///< "": not given

  /// Adds the option. This object must outlive the parser.
  void add_to(CLI::App& verb);
  /// Throws Refused if the name of the file is not that of a PNG or HTML file.
  void check() const;
};

/// Shows some samples with the predictions of a model, as an image or a page.
class Preview {
 public:
  /// Selects samples that are spread evenly over the data set of `data`, or none if the option was
  /// not given. Create it before the run. Throws Refused if the samples cannot be shown. `file`,
  /// that of the option, and `context` must outlive this object.
  Preview(const PreviewFlag& flag, OutputFile& file, const Pipeline& model, const Pipeline& data,
          Context& context, const Plan::Numerics& numerics);
  /// Predicts the samples, writes the file, and prints this, also if an interrupt prevented it.
  /// Call it after the run, when its results were written. Throws Error, with the name of the
  /// option.
  void write(const std::function<bool()>& interrupted);

 private:
  const std::string path_;
  OutputFile& file_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<PreviewSheet> sheet_;
  Plan plan_;
};

}  // namespace slipstream
