#include <algorithm>

#include "slipstream/transforms/op.h"

namespace {

using namespace slipstream;

struct Invert {
  static constexpr std::string_view kName = "invert";
  struct Drawn {};

  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    const auto* from = in.as<std::uint8_t>();
    std::transform(from, from + in.shape.elements(), out.as<std::uint8_t>(),
                   [](std::uint8_t value) { return static_cast<std::uint8_t>(255 - value); });
  }
};

bool may_fuse() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma") != 0;
#else
  return true;
#endif
}

}  // namespace

bool rounds_twice();

int main() {
  if (may_fuse() && !rounds_twice()) return 2;
  Sample sample;
  sample.fields.resize(1);
  *sample.fields[0].array.reset(DType::uint8, {1}).as<std::uint8_t>() = 5;
  const FieldSpec spec{"image", FieldKind::image, DType::uint8, {1}};
  std::vector<HostArray> spare(1);
  Scratch scratch;
  AnyOp(Invert{}).apply({}, {&spec, 1}, sample, spare, scratch);
  return *sample.fields[0].array.view().as<std::uint8_t>() == 250 ? 0 : 1;
}
