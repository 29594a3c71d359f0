#include "workloads/transforms.h"

#include "slipstream/chain.h"
#include "slipstream/files.h"
#include "slipstream/resize.h"

namespace slipstream {
namespace {

std::vector<NamedOp> chain_of(const Options& options) {
  if (options.chain.empty()) return {{"resize", Resize{options.image_size, options.image_size}}};
  try {
    return parse_chain(read_text(options.chain));
  } catch (const Error& error) {
    throw Refused("chain '" + options.chain + "': " + error.what());
  }
}

}  // namespace

Pipeline with_transforms(Pipeline declared, const Options& options) {
  FieldSpec image{"image", FieldKind::image, DType::u8, {-1, -1, 3}, 0};
  for (NamedOp& each : chain_of(options)) {
    if (each.op.touches(image.kind)) image = each.op.output(image);
    declared = std::move(declared).transform(each.name, std::move(each.op));
  }
  const std::int64_t size = options.image_size;
  if (!(image.shape == Shape{size, size, 3}))
    throw Refused("chain '" + options.chain + "' ends with images of " + to_string(image.shape) +
                  ", but --image-size asks for " + to_string(Shape{size, size, 3}));
  return declared;
}

}  // namespace slipstream
