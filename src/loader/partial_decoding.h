#pragma once

#include <optional>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// How a loader decodes. Where bad samples are skipped, files are decoded whole: a file that is
/// damaged outside of what the crop of one epoch reads would be bad in some epochs alone, and known
/// in later ones.
DecodeOptions decode_options(const DataLoaderOptions& options);

/// What reads an image once it is decoded: the first of the transforms `on_host`, or without one
/// what puts images on the canvases of `layout`. Nothing where neither is there.
std::optional<AnyOp> first_reader(const std::vector<NamedOp>& on_host, const SlabLayout& layout);

/// Whether decoding makes no more of an image than `first` reads, a part of it or fewer pixels:
/// where the options and the data set allow it.
bool decodes_parts(const Dataset& dataset, const std::optional<AnyOp>& first,
                   const DecodeOptions& decode);

}  // namespace slipstream
