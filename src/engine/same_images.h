#pragma once

#include <string>
#include <vector>

#include "slipstream/engine/evaluation.h"
#include "slipstream/transforms/batch_ops.h"

namespace slipstream {

/// Throws Refused where an image that the model is evaluated on has another dtype than the one that
/// it is trained on, or another shape than the same transforms give in training; with
/// EvaluationOptions::same_images also where it has another shape than in training.
/// `transforms`: those of the evaluation.
void require_fields_of_training(const Pipeline& model, const Pipeline& data,
                                const std::vector<NamedOp>& transforms,
                                const EvaluationOptions& options);

/// Throws Refused where the largest absolute values of float32 images differ so much between
/// training and evaluation that one of the two is not scaled, as with 0 to 1 and 0 to 255. Reads a
/// few samples of both, with their transforms on the CPU. `evaluated`: the pipeline of the
/// evaluation.
void require_range_of_training(const Pipeline& model, const Pipeline& evaluated,
                               const EvaluationOptions& options);

}  // namespace slipstream
