#pragma once

#include "slipstream/cli/workload.h"

namespace slipstream {

/// Returns the options of the images that `--data synthetic` generates, with `classes` classes.
SyntheticOptions make_synthetic_options(const Options& options);

/// Creates a pipeline() over `dataset` with the option `transforms` or, without it, a Resize to
/// `image-size`. Throws Refused for options that do not fit the data set, images that are not RGB,
/// and transforms whose results are not square images of this size.
Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options);
/// Creates the pipeline with the given transforms instead.
Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options,
                       const std::vector<NamedOp>& transforms);

/// Returns the transforms in the value of the option `transforms`: the path of a file, or JSON.
std::vector<NamedOp> chain_in(const std::string& transforms);

/// If `transforms` is given but `image-size` is not, sets `image-size` to the height of the
/// resulting images, unless that depends on the sample. Call it before `image-size` is read.
void take_size_of_transforms(Options& options);

/// Whether `data` is declared and selects synthetic samples.
bool is_synthetic(const Options& options);

/// Opens the data set at `data`. Classes are numbered by `classes-from` or, if samples need no
/// labels, by Options::class_names.
std::shared_ptr<const Dataset> open_data(const Options& options);
/// Calls open_to_predict() for `data` if samples need no labels. Otherwise returns nullptr.
std::shared_ptr<const Dataset> open_to_predict(const Options& options, bool needs_masks);

/// Whether the data set has a field "label" of this kind.
bool has_labels(const Dataset& dataset, FieldKind kind);

/// Returns the number of classes for data without labels: the number of class names or, without
/// names, that of the options. Sets the option to it.
std::int64_t classes_without_labels(const Dataset& dataset, Options& options);

/// Returns the number of classes of the data set or, if unknown, that of the options. Sets the
/// option to it. Larger labels are refused later. Throws Refused, naming `workload`, if samples
/// need a class but have none, and if the given number differs from that of the data set.
std::int64_t find_classes(const Dataset& dataset, Options& options, const std::string& workload);

/// Returns the name of the data for messages: "'photos'", or "the data" if there is no option
/// `data`.
std::string name_of_data(const Options& options);

}  // namespace slipstream
