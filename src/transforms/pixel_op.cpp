#include "slipstream/transforms/pixel_op.h"

#include "slipstream/core/error.h"
#include "transforms/pixel_field.h"

namespace slipstream {

FieldSpec changed_field(std::string_view name, const FieldSpec& in, const bool (&takes)[4]) {
  require_pixels(name, in, 1, 4);
  if (takes[in.shape[2] - 1]) return as_f32(in);
  std::string channels;
  for (int c = 0; c < 4; ++c) {
    if (takes[c]) channels += (channels.empty() ? "" : " or ") + std::to_string(c + 1);
  }
  throw Refused(std::string(name) + ": image '" + in.name + "' is " + to_string(in.shape) +
                "; the function takes " + channels + " channels");
}

}  // namespace slipstream
