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

/// How the images of one sample come onto their canvases.
struct CanvasPosition {
  DrawnCrop crop;           ///< of the image
  DrawnCrop there;          ///< of the canvas
  bool is_resized = false;  ///< by the host: it does not fit, or is odd
};

/// `key`: of the sample; `image`: its shape; `is_odd`: whether one of its fields is shrunk or of
/// another size. Throws what the chain's first operation throws. REQUIRES: the chain has canvases
CanvasPosition place_on_canvas(const DeviceChain& chain, const RandomKey& key, const Shape& image,
                               bool is_odd);

/// Whether `field` holds canvases of `chain`, which may be nullptr.
bool holds_canvases(const DeviceChain* chain, const SlabField& field);

/// Puts what the device reads of one sample's value of `field` into the slab. `part`: which window
/// of its image the value is; nullptr: all of it. Throws Error as collate() and the chain's first
/// operation do.
void collate_on_canvas(const DeviceChain& chain, const SlabField& field, const ConstArray& value,
                       const Window* part, const CanvasPosition& place, std::size_t position,
                       CanvasMemory& memory, std::byte* slab);

}  // namespace slipstream
