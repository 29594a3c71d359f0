#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/transforms/batch_ops.h"

namespace slipstream {

// A chain of transforms is stored as JSON with "version": 1 (docs/transforms.md holds the schema):
//   {"version": 1, "transforms": [{"name": "small", "op": "resize", "size": [64, 48]}]}
// "name" is optional. Its default is the name of the operation.

/// Parses a chain from JSON text. Throws Refused with all problems at once, one per line, each with
/// its path in the JSON: text that is not JSON, another version, an unknown operation or key (with
/// the nearest known one), a missing key, a wrong type, invalid parameters, and operations over
/// batches (batch_ops.h) that do not come last or exclude each other. The loader checks that names
/// are unique.
std::vector<NamedOp> parse_chain(std::string_view text);
/// Reads a file and parses it with parse_chain(). Throws Refused, naming the file, if it cannot be
/// read or parse_chain() refuses its content.
std::vector<NamedOp> load_chain(const std::filesystem::path& path);
/// Calls load_chain(), or for an empty path returns a single Resize to `size` x `size` pixels,
/// named "resize". Throws Refused under the conditions of load_chain().
std::vector<NamedOp> load_chain_or_resize(const std::filesystem::path& path, std::int64_t size);

/// Returns the chain that replaces `chain` when a model is evaluated. Every random operation is
/// replaced by what AnyOp::for_evaluation() returns: a random crop becomes a center crop of the
/// same size, and the library's other random operations are removed. For a random crop that also
/// resizes, the image is first resized so that its shorter side is 8/7 of the crop's longer side
/// (256 for 224), as is usual with torchvision's models. Throws Refused for a random operation
/// without for_evaluation().
std::vector<NamedOp> evaluation_transforms(const std::vector<NamedOp>& chain);

/// Returns the field that `chain` produces from RGB images of any size (uint8, height x width x 3).
/// Sizes that are not known are -1. Throws Refused if an operation cannot process its input.
FieldSpec image_after(const std::vector<NamedOp>& chain);

/// Formats the chain as JSON with every parameter, which parse_chain() can read. Throws Refused,
/// naming the transform, for an operation that is not part of the library.
std::string to_json_text(const std::vector<NamedOp>& chain);

}  // namespace slipstream
