#include "slipstream/transforms/containers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "transforms/checks.h"
#include "transforms/contained.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

constexpr std::size_t kMostTransforms = 64;

/// The parameters of one contained operation, generated for one sample.
class NestedParameters {
 public:
  NestedParameters(const AnyOp& op, const DrawnContainer& drawn, std::size_t index)
      : NestedParameters(op, contained_key(drawn.key, index), drawn.shape) {}
  NestedParameters(const AnyOp& op, const RandomKey& key, const Shape& shape)
      : words_(op.drawn_bytes() / sizeof(std::max_align_t) + 1) {
    op.draw(key, shape, data());
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }

 private:
  std::vector<std::max_align_t> words_;
};

/// Generates the parameters of all operations, because a sample must fit all of them.
void require_fit(const std::vector<NamedOp>& transforms, const RandomKey& key, const Shape& shape) {
  for (std::size_t i = 0; i < transforms.size(); ++i)
    NestedParameters(transforms[i].op, contained_key(key, i), shape);
}

void require_drawn_shape(std::string_view op, const DrawnContainer& drawn, const ConstArray& in) {
  require_drawn_for(op, DrawnCrop{{}, drawn.shape[0], drawn.shape[1]}, in);
}

AffineMap identity(const Shape& shape) { return {.height = shape[0], .width = shape[1]}; }

/// Returns the map that applies `first` and then `second`.
AffineMap product(const AffineMap& second, const AffineMap& first) {
  return {second.xx * first.xx + second.xy * first.yx,
          second.xx * first.xy + second.xy * first.yy,
          second.xx * first.dx + second.xy * first.dy + second.dx,
          second.yx * first.xx + second.yy * first.yx,
          second.yx * first.xy + second.yy * first.yy,
          second.yx * first.dx + second.yy * first.dy + second.dy,
          second.height,
          second.width};
}

bool any_touches(const std::vector<NamedOp>& transforms, FieldKind kind) {
  return std::any_of(transforms.begin(), transforms.end(),
                     [&](const NamedOp& each) { return each.op.touches(kind); });
}

/// Returns the field after one operation.
FieldSpec field_after(const NamedOp& each, const FieldSpec& in) {
  return each.op.touches(in.kind) ? each.op.output(in) : in;
}

bool is_same(const FieldSpec& a, const FieldSpec& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

std::string describe_array(const FieldSpec& field) {
  return std::string(to_string(field.dtype)) + ", " + to_string(field.shape);
}

std::string listed(std::string_view container, const NamedOp& each) {
  return std::string(container) + ": '" + each.name + "' ";
}

void require_transforms(std::string_view container, const std::vector<NamedOp>& transforms) {
  if (transforms.empty() || transforms.size() > kMostTransforms)
    throw Refused(std::string(container) + ": there are " + std::to_string(transforms.size()) +
                  " transforms; give 1 to " + std::to_string(kMostTransforms));
  std::vector<std::string> problems;
  for (const NamedOp& each : transforms) {
    if (each.op.is_over_batch() || each.op.finds_shape())
      problems.push_back(listed(container, each) +
                         (each.op.is_over_batch() ? "works on whole batches"
                                                  : "determines the shape of its result") +
                         ", so it cannot be in a container: put it after " +
                         std::string(container));
    try {
      each.op.validate();
    } catch (const Refused& refused) {
      problems.push_back(std::string(container) + ": " + refused.what());
    }
  }
  refuse(problems);
}

}  // namespace

const std::vector<NamedOp>* contained_ops(const AnyOp& op) {
  if (const auto* held = op.get_if<RandomApply>()) return &held->transforms;
  if (const auto* held = op.get_if<RandomChoice>()) return &held->transforms;
  return nullptr;
}

// The operation has another seed, generated from one of the container's last blocks, which the
// container does not use for other purposes.
RandomKey contained_key(const RandomKey& key, std::size_t index) {
  constexpr std::uint32_t kLastBlock = (1U << 26) - 1;
  const PhiloxBlock words = key.block(kLastBlock - static_cast<std::uint32_t>(index));
  RandomKey contained = key;
  contained.seed = words[0] | std::uint64_t{words[1]} << 32;
  return contained;
}

void RandomApply::validate() const {
  require_all([&] { require_transforms(kName, transforms); },
              [&] { require_probability(kName, p); });
}

bool RandomApply::touches(FieldKind kind) const { return any_touches(transforms, kind); }

FieldSpec RandomApply::output(const FieldSpec& in) const {
  for (const NamedOp& each : transforms) {
    const FieldSpec after = field_after(each, in);
    if (is_same(after, in)) continue;
    throw Refused(listed(kName, each) + "changes '" + in.name + "' from " + describe_array(in) +
                  " to " + describe_array(after) +
                  ", but images that it is not applied to keep theirs: put it "
                  "before or after " +
                  std::string(kName));
  }
  return in;
}

bool RandomApply::is_random() const {
  const auto is_random = [](const NamedOp& each) { return each.op.is_random(); };
  return p > 0 && (p < 1 || std::any_of(transforms.begin(), transforms.end(), is_random));
}

std::optional<AnyOp> RandomApply::for_evaluation() const {
  if (p < 1) return std::nullopt;
  RandomApply kept{{}, 1};
  for (const NamedOp& each : transforms)
    if (const std::optional<AnyOp> op = each.op.for_evaluation())
      kept.transforms.push_back({each.name, *op});
  if (kept.transforms.empty()) return std::nullopt;
  return kept;
}

RandomApply::Drawn RandomApply::draw(const RandomKey& key, const Shape& shape) const {
  require_fit(transforms, key, shape);
  return {key, shape, is_applied(key, p) ? 1U : 0U};
}

void RandomApply::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                        Scratch& scratch) const {
  require_drawn_shape(kName, drawn, in);
  const auto touching = std::count_if(transforms.begin(), transforms.end(),
                                      [&](const NamedOp& each) { return each.op.touches(kind); });
  auto left = drawn.choice == 1 ? touching : 0;
  if (left == 0) return copy_all(in, out);
  HostArray spare;
  // Results alternate between the two arrays, so that the last one is `out`.
  ConstArray from = in;
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    const AnyOp& op = transforms[i].op;
    if (!op.touches(kind)) continue;
    --left;
    const MutableArray to = left % 2 == 0 ? out : spare.reset(in.dtype, in.shape);
    op.apply(NestedParameters(op, drawn, i).data(), kind, from, to, scratch);
    from = {to.data, to.dtype, to.shape};
  }
}

AffineMap RandomApply::map(const Drawn& drawn, const Shape& shape) const {
  AffineMap all = identity(shape);
  for (std::size_t i = 0; drawn.choice == 1 && i < transforms.size(); ++i) {
    const AnyOp& op = transforms[i].op;
    const auto each = op.map(NestedParameters(op, drawn, i).data(), shape);
    if (each) all = product(*each, all);
  }
  return all;
}

void RandomChoice::validate() const {
  require_all([&] { require_transforms(kName, transforms); },
              [&] {
                if (p.empty()) return;
                if (p.size() != transforms.size())
                  throw Refused("random_choice: p has " + std::to_string(p.size()) +
                                " numbers for " + std::to_string(transforms.size()) +
                                " transforms; give one for each, or leave p out");
                for (const double each : p)
                  if (!(each >= 0 && std::isfinite(each)))
                    throw Refused("random_choice: a number of p is " + number_text(each) +
                                  "; it must be 0 or more");
                const double sum = std::accumulate(p.begin(), p.end(), 0.0);
                if (sum > 0 && std::isfinite(sum)) return;
                throw Refused("random_choice: the sum of p is " + number_text(sum) +
                              "; it must be above 0 and finite");
              });
}

bool RandomChoice::touches(FieldKind kind) const { return any_touches(transforms, kind); }

FieldSpec RandomChoice::output(const FieldSpec& in) const {
  FieldSpec first = field_after(transforms.front(), in);
  // Not the first again: containers in containers would take exponential time.
  for (auto each = transforms.begin() + 1; each != transforms.end(); ++each) {
    const FieldSpec after = field_after(*each, in);
    if (is_same(after, first)) continue;
    throw Refused(listed(kName, *each) + "makes '" + in.name + "' " + describe_array(after) +
                  ", but '" + transforms.front().name + "' makes it " + describe_array(first) +
                  "; all transforms must give the same dtype and shape");
  }
  return first;
}

bool RandomChoice::is_random() const {
  const auto chosen = std::count_if(p.begin(), p.end(), [](double each) { return each > 0; });
  if (p.empty() ? transforms.size() > 1 : chosen > 1) return true;
  for (std::size_t i = 0; i < transforms.size(); ++i)
    if ((p.empty() || p[i] > 0) && transforms[i].op.is_random()) return true;
  return false;
}

bool RandomChoice::changes_images() const {
  // Images of several sizes, because an operation may accept only some, or keep one by chance.
  for (const Shape& size : {Shape{-1, -1}, Shape{251, 241}, Shape{239, 233}})
    for (const std::int64_t channels : {1, 3})
      for (const DType dtype : {DType::uint8, DType::float32}) {
        const FieldSpec image{"image", FieldKind::image, dtype, {size[0], size[1], channels}, 0};
        try {
          if (!is_same(output(image), image)) return true;
        } catch (const Refused&) {
          continue;
        }
      }
  return false;
}

std::optional<AnyOp> RandomChoice::for_evaluation() const {
  if (!changes_images()) return std::nullopt;
  return transforms.front().op.for_evaluation();
}

RandomChoice::Drawn RandomChoice::draw(const RandomKey& key, const Shape& shape) const {
  require_fit(transforms, key, shape);
  const auto weight = [&](std::size_t i) { return p.empty() ? 1.0 : p[i]; };
  double sum = 0;
  for (std::size_t i = 0; i < transforms.size(); ++i) sum += weight(i);
  const double at = RandomStream(key).uniform() * sum;
  std::size_t choice = 0;
  double reached = 0;
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    if (weight(i) == 0) continue;
    choice = i;
    reached += weight(i);
    if (at < reached) break;
  }
  return {key, shape, choice};
}

void RandomChoice::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                         Scratch& scratch) const {
  require_drawn_shape(kName, drawn, in);
  const AnyOp& op = transforms[drawn.choice].op;
  if (!op.touches(kind)) return copy_all(in, out);
  op.apply(NestedParameters(op, drawn, drawn.choice).data(), kind, in, out, scratch);
}

AffineMap RandomChoice::map(const Drawn& drawn, const Shape& shape) const {
  const AnyOp& op = transforms[drawn.choice].op;
  return op.map(NestedParameters(op, drawn, drawn.choice).data(), shape).value_or(identity(shape));
}

}  // namespace slipstream
