#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/transforms/batch_ops.h"

namespace slipstream {

// A chain of transforms is written as JSON with "version": 1 (docs/transforms.md holds the schema):
//   {"version": 1, "transforms": [{"name": "small", "op": "resize", "size": [64, 48]}]}
// "name" may be left out. The step is then called as its operation is.

/// The chain that JSON text holds. Throws Refused, with all problems at once, one in each line. It
/// names the place in the JSON and says what is wrong: text that is not JSON, another version, an
/// unknown operation or key (with the nearest known one), a missing key, a wrong type, parameters
/// that make no sense, operations over batches (batch_ops.h) that do not come last or exclude each
/// other. Whether two transforms have one name is checked by the loader.
std::vector<NamedOp> parse_chain(std::string_view text);
/// The chain that a file holds, read by parse_chain(). Throws Refused, naming the file, for a file
/// that cannot be read and for what parse_chain() refuses.
std::vector<NamedOp> load_chain(const std::filesystem::path& path);
/// The chain that a file holds, or for an empty path a single Resize to `size` x `size` pixels,
/// named "resize". Throws Refused where load_chain() does.
std::vector<NamedOp> load_chain_or_resize(const std::filesystem::path& path, std::int64_t size);

/// Returns the chain that replaces `chain` when a model is evaluated. Every random operation
/// becomes what AnyOp::for_evaluation() returns: a random crop becomes a center crop of that size,
/// and the library's other random operations are left out. For a random crop that also resizes, the
/// image is first resized so that its shorter side is 8/7 of the crop's longer one (256 for 224),
/// as is usual with torchvision's models. Throws Refused for a random operation without that
/// member.
std::vector<NamedOp> evaluation_transforms(const std::vector<NamedOp>& chain);

/// The field that `chain` makes of RGB images of any size (uint8, height x width x 3); -1 stands
/// for a size that is not known. Throws Refused where an operation cannot take what it is given.
FieldSpec image_after(const std::vector<NamedOp>& chain);

/// The chain as JSON with every parameter written out; parse_chain() reads it back. Throws Refused,
/// naming the transform, for an operation that is not the library's own.
std::string to_json_text(const std::vector<NamedOp>& chain);

}  // namespace slipstream
