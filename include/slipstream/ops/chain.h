#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/ops/batch_ops.h"

namespace slipstream {

/// A chain of transforms as JSON with "version": 1 (docs/transforms.md holds the schema):
///   {"version": 1, "transforms": [{"name": "small", "op": "resize", "size": [64, 48]}]}
/// "name" may be left out: the step is then called as its operation is.

/// Throws Refused for what is not JSON, another version, an unknown operation or key (with the
/// nearest known one), a missing key, a wrong type, or parameters that make no sense, naming the
/// path; for operations over batches (batch_ops.h) that do not come last, as BatchOps::take() does;
/// all problems at once, one a line. That names differ is left to the loader.
std::vector<NamedOp> parse_chain(std::string_view text);
/// That of a file. Throws Refused, naming it, for one that cannot be read too.
std::vector<NamedOp> load_chain(const std::filesystem::path& path);
/// The same; for "" a Resize to `size` x `size`, named "resize".
std::vector<NamedOp> load_chain_or_resize(const std::filesystem::path& path, std::int64_t size);

/// What `chain` makes of RGB images of any size. Throws Refused as the operations do.
FieldSpec image_after(const std::vector<NamedOp>& chain);

/// The chain, every parameter written out; parse_chain() gives it back. Throws Refused naming a
/// transform that is none of the operations of transforms.h and resize.h.
std::string to_json(const std::vector<NamedOp>& chain);

}  // namespace slipstream
