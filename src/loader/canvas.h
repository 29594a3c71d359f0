#pragma once

#include "slipstream/loader/data_loader.h"
#include "slipstream/transforms/drawn.h"
#include "transforms/device_chain.h"

namespace slipstream {

/// One worker's memory for canvases (OnCanvas), reused from sample to sample.
struct CanvasMemory {
  HostArray resized;
  HostArray canvas;
  Scratch scratch;
};

/// The position of one sample's images on their canvases.
struct CanvasPosition {
  DrawnCrop crop;           ///< region of the image that is copied
  DrawnCrop there;          ///< region of the canvas that is written
  bool is_resized = false;  ///< resized by the host, because it does not fit or is_odd is true
};

/// Computes the position on the canvas. `key` is the sample's random key and `image` the shape of
/// its image. `is_odd` is true if a field of the sample has been shrunk or has another size than
/// the image. Throws what the chain's first operation throws. REQUIRES: the chain has canvases
CanvasPosition place_on_canvas(const DeviceChain& chain, const RandomKey& key, const Shape& image,
                               bool is_odd);

/// Returns true if `field` holds canvases of `chain`, which may be nullptr.
bool holds_canvases(const DeviceChain* chain, const SlabField& field);

/// Copies the part of one sample's value of `field` that the device reads to the slab. `part` is
/// the window of the image that the value contains; nullptr: all of it. Throws Error as collate()
/// and the chain's first operation do.
void collate_on_canvas(const DeviceChain& chain, const SlabField& field, const ConstArray& value,
                       const Window* part, const CanvasPosition& place, std::size_t position,
                       CanvasMemory& memory, std::byte* slab);

}  // namespace slipstream
