#pragma once

#include <string>

#include "cli/common_options.h"

namespace slipstream {

/// Gives `common` what the checkpoint at `weights` records of its training: options of the workload
/// that make the model and its images, the transforms, the seed and the classes. Options of data,
/// sampling and the optimizer are left as they are. Of a record that names no workload of this
/// program, as those of slipstream.Trainer, only the classes are taken; without a record, nothing.
/// Throws Refused for a record that cannot be read, for another workload, and for options that were
/// given and differ from the record, all at once; with `overrides` given options are used instead.
void take_recorded(const std::string& weights, bool overrides, CommonOptions& common);

/// Throws Refused, naming the first difference, where the classes of `dataset` have other names or
/// numbers than `options.class_names`, the classes that the weights were trained on.
void require_recorded_classes(const Dataset& dataset, const Options& options);

}  // namespace slipstream
