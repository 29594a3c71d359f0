#pragma once

#include <optional>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Returns how a loader decodes. If bad samples are skipped, files are decoded completely.
/// Otherwise a file that is damaged outside of one epoch's crop would be bad in some epochs only,
/// and known as bad in later ones.
DecodeOptions decode_options(const DataLoaderOptions& options);

/// Returns the operation that first reads a decoded image: the first of the transforms `on_host`
/// or, if there is none, the one that puts images on the canvases of `layout`. No value if there is
/// neither.
std::optional<AnyOp> first_reader(const std::vector<NamedOp>& on_host, const SlabLayout& layout);

/// Returns true if only the part of an image that `first` reads, or fewer pixels of it, is decoded.
/// The options and the data set must allow it.
bool decodes_parts(const Dataset& dataset, const std::optional<AnyOp>& first,
                   const DecodeOptions& decode);

}  // namespace slipstream
