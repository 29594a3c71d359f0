#include "engine/jpeg_unpacking.h"

namespace slipstream {

JpegUnpacker* JpegUnpacking::unpacker_for(const Plan& plan) {
  const WireFormats wire = wire_formats(plan);
  if (!has_format(wire, Wire::jpeg)) return nullptr;
  if (has_unpacker_for(plan)) return unpacker_.get();
  unpacker_.reset();
  const Pipeline& pipeline = bound_.pipeline;
  JpegUnpacker::Options options;
  options.device = bound_.context.device().index();
  options.memory = &memory_;
  options.decode = pipeline.options().decode;
  options.name = [&pipeline](std::uint64_t sample) { return pipeline.dataset()->name(sample); };
  unpacker_ = std::make_unique<JpegUnpacker>(bound_.layout(plan), std::move(options));
  wire_ = wire;
  return unpacker_.get();
}

bool JpegUnpacking::has_unpacker_for(const Plan& plan) const {
  return unpacker_ != nullptr && wire_ == wire_formats(plan);
}

JpegResult JpegUnpacking::so_far() const {
  if (unpacker_ == nullptr) return {};
  return {unpacker_->images(), unpacker_->decoded_by_cpu(), unpacker_->uses_engines()};
}

}  // namespace slipstream
