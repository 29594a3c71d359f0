#include "loader/partial_decoding.h"

#include "transforms/device_chain.h"

namespace slipstream {

DecodeOptions decode_options(const DataLoaderOptions& options) {
  DecodeOptions decode = options.decode;
  decode.partial &= options.on_bad_sample == OnBadSample::stop;
  return decode;
}

std::optional<AnyOp> first_reader(const std::vector<NamedOp>& on_host, const SlabLayout& layout) {
  if (!on_host.empty()) return on_host.front().op;
  const DeviceChain* const chain = layout.device_chain.get();
  if (chain != nullptr && chain->before_canvas() != nullptr) return chain->before_canvas()->op;
  return std::nullopt;
}

bool decodes_parts(const Dataset& dataset, const std::optional<AnyOp>& first,
                   const DecodeOptions& decode) {
  return (decode.partial || decode.scaled) && dataset.decodes_by_default() && first &&
         first->reads_region();
}

}  // namespace slipstream
