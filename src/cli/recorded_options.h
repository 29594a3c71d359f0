#pragma once

#include <string>

#include "cli/common_options.h"

namespace slipstream {

/// Sets options of `common` to those that the checkpoint at `weights` recorded in its training: the
/// workload's options for the model and its images, the transforms, the seed and the classes. Does
/// not change options of data, sampling and the optimizer. If the record has no workload of this
/// program, for example that of slipstream.Trainer, uses only the classes. Without a record, does
/// nothing. Throws Refused for a record that cannot be read, for another workload, and, all at
/// once, for given options that differ from the record. With `overrides`, given options are used
/// instead.
void take_recorded(const std::string& weights, bool overrides, CommonOptions& common);

/// Throws Refused, with the first difference, if the classes of `dataset` have other names or
/// numbers than `options.class_names`, the classes that the weights were trained on.
void require_recorded_classes(const Dataset& dataset, const Options& options);

}  // namespace slipstream
