#pragma once

#include "slipstream/cli/workload.h"

namespace slipstream {

/// What `--data synthetic` draws: `classes` of them.
SyntheticOptions make_synthetic_options(const Options& options);

/// A pipeline() over `dataset` with the `transforms` or, without them, a Resize to
/// `image-size`. Throws Refused for options that do not fit the data set, images of other channels
/// than RGB, and transforms that do not end with square images of that size.
Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options);
/// The same with other transforms.
Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options,
                       const std::vector<NamedOp>& transforms);

/// The chain of transforms that the value of `transforms` names: a file of them, or their JSON.
std::vector<NamedOp> chain_in(const std::string& transforms);

/// Where `transforms` are given and `image-size` is not, sets that to the height of the images that
/// they end with, unless it depends on the sample. For before anything reads it.
void take_size_of_transforms(Options& options);

/// Whether `data` is declared and asks for synthetic samples.
bool is_synthetic(const Options& options);

/// The data set at `data`, its classes numbered as `classes-from` says or, where samples need no
/// labels, as Options::class_names does.
std::shared_ptr<const Dataset> open_data(const Options& options);
/// open_to_predict() of `data`, where samples need no labels; else nullptr.
std::shared_ptr<const Dataset> open_to_predict(const Options& options, bool needs_masks);

/// Whether the data set has a field "label" of that kind.
bool has_labels(const Dataset& dataset, FieldKind kind);

/// How many classes there are where no label says it: as many as have names, or else as the options
/// say; and sets it.
std::int64_t classes_without_labels(const Dataset& dataset, Options& options);

/// What the data set says, or else what the options say, and sets it; labels beyond them are then
/// refused. Throws Refused, naming `workload`, where samples need a class and have none; and where
/// a number was given that is another than the data set's.
std::int64_t find_classes(const Dataset& dataset, Options& options, const std::string& workload);

/// For messages: "'photos'", or "the data" of a workload that has no `data`.
std::string name_of_data(const Options& options);

}  // namespace slipstream
