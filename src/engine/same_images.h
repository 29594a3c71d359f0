#pragma once

#include <string>
#include <vector>

#include "slipstream/engine/evaluation.h"
#include "slipstream/transforms/batch_ops.h"

namespace slipstream {

/// Throws Refused if an image in the evaluation has another dtype than in training, or another
/// shape than the same transforms produce in training. With EvaluationOptions::same_images, also
/// throws if it has another shape than in training. `transforms` are those of the evaluation.
void require_fields_of_training(const Pipeline& model, const Pipeline& data,
                                const std::vector<NamedOp>& transforms,
                                const EvaluationOptions& options);

/// Throws Refused if the largest absolute values of float32 images differ so much between training
/// and evaluation that one of the two is not scaled, as with 0 to 1 and 0 to 255. Reads a few
/// samples of both, with their transforms on the CPU. `evaluated` is the pipeline of the
/// evaluation.
void require_range_of_training(const Pipeline& model, const Pipeline& evaluated,
                               const EvaluationOptions& options);

}  // namespace slipstream
