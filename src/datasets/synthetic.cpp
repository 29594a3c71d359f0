#include <string>

#include "datasets/identity.h"
#include "slipstream/core/error.h"
#include "slipstream/core/philox.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMaxSize = 16'384;
constexpr std::int64_t kMaxClasses = 256;
constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 48;

// The last two of a key's 64 operations, so that transforms never use the same random numbers.
constexpr std::uint32_t kImageOperation = 62;
constexpr std::uint32_t kLabelOperation = 63;

class Synthetic final : public Dataset {
 public:
  Synthetic(const SyntheticOptions& options, FieldKind labels)
      : options_(options), labels_(labels) {}

  std::size_t size() const override { return options_.samples; }

  std::vector<FieldSpec> fields() const override {
    const std::int64_t side = options_.size;
    return {{"image", FieldKind::image, DType::uint8, {side, side, 3}, 0},
            {"label", labels_, DType::uint8, label_shape(), options_.classes}};
  }
  std::uint64_t identity() const override {
    Identity identity;
    identity.add(options_.samples);
    identity.add(static_cast<std::uint64_t>(options_.size));
    identity.add(static_cast<std::uint64_t>(options_.classes));
    identity.add(options_.seed);
    identity.add(static_cast<std::uint64_t>(labels_));
    return identity.value();
  }

  void read(std::size_t index, Sample& out) const override {
    const std::int64_t side = options_.size;
    RandomKey key;
    key.seed = options_.seed;
    key.sample = index;
    out.fields.resize(2);
    for (Field& field : out.fields) field.encoded = false;
    key.operation = kImageOperation;
    fill_bytes(key, out.fields[0].array.reset(DType::uint8, {side, side, 3}));
    key.operation = kLabelOperation;
    fill_classes(key, out.fields[1].array.reset(DType::uint8, label_shape()));
  }

 private:
  Shape label_shape() const {
    return labels_ == FieldKind::mask ? Shape{options_.size, options_.size} : Shape{};
  }

  static void fill_bytes(const RandomKey& key, const MutableArray& out) {
    auto* to = out.as<std::uint8_t>();
    const std::size_t bytes = out.bytes();
    for (std::size_t i = 0; i < bytes; i += 16) {
      const PhiloxBlock block = key.block(static_cast<std::uint32_t>(i / 16));
      for (std::size_t j = 0; j < 16 && i + j < bytes; ++j) {
        to[i + j] = static_cast<std::uint8_t>(block[j / 4] >> (j % 4 * 8));
      }
    }
  }

  void fill_classes(const RandomKey& key, const MutableArray& out) const {
    auto* to = out.as<std::uint8_t>();
    const std::size_t bytes = out.bytes();
    const auto classes = static_cast<std::uint32_t>(options_.classes);
    for (std::size_t i = 0; i < bytes; i += 8) {
      const PhiloxBlock block = key.block(static_cast<std::uint32_t>(i / 8));
      for (std::size_t j = 0; j < 8 && i + j < bytes; ++j) {
        const std::uint32_t word = block[j / 2] >> (j % 2 * 16) & 0xffff;
        to[i + j] = static_cast<std::uint8_t>(word * classes >> 16);
      }
    }
  }

  SyntheticOptions options_;
  FieldKind labels_;
};

void check(const SyntheticOptions& options) {
  std::string problems;
  if (options.samples < 1 || options.samples > kMaxSamples) {
    problems += "; samples is " + std::to_string(options.samples) + ", not 1 to 2^48";
  }
  if (options.size < 1 || options.size > kMaxSize) {
    problems += "; size is " + std::to_string(options.size) + ", not 1 to 16384";
  }
  if (options.classes < 1 || options.classes > kMaxClasses) {
    problems += "; classes is " + std::to_string(options.classes) + ", not 1 to 256";
  }
  if (!problems.empty()) throw Refused("synthetic data: " + problems.substr(2));
}

}  // namespace

std::shared_ptr<const Dataset> synthetic_segmentation(const SyntheticOptions& options) {
  check(options);
  return std::make_shared<Synthetic>(options, FieldKind::mask);
}

std::shared_ptr<const Dataset> synthetic_classification(const SyntheticOptions& options) {
  check(options);
  return std::make_shared<Synthetic>(options, FieldKind::label);
}

}  // namespace slipstream
