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

  /// This must outlive the parser.
  void add_to(CLI::App& verb);
  /// Throws Refused where the file has the name of another format than PNG and HTML.
  void check() const;
};

/// Some samples with the predictions of a model, as images or as a page.
class Preview {
 public:
  /// Before the run: takes samples that are spread evenly over the data set of `data`, or nothing
  /// where the option was not given. Throws Refused where these cannot be shown. `file`, that of
  /// the option, and `context` must outlive this.
  Preview(const PreviewFlag& flag, OutputFile& file, const Pipeline& model, const Pipeline& data,
          Context& context, const Plan::Numerics& numerics);
  /// Behind the run, whose results are to be written before: predicts, writes the picture and says
  /// so, also where an interrupt keeps it from being written. Throws Error, naming the option.
  void write(const std::function<bool()>& interrupted);

 private:
  const std::string path_;
  OutputFile& file_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<PreviewSheet> sheet_;
  Plan plan_;
};

}  // namespace slipstream
