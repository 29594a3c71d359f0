#include "slipstream/datasets/dataset.h"

#include <utility>

#include "datasets/identity.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {

std::vector<FieldSpec> Dataset::fields() const {
  if (size() == 0) throw Error("the data set is empty: it needs at least one sample");
  Sample sample;
  read(0, sample);
  std::vector<FieldSpec> specs;
  for (const Field& field : sample.fields) {
    const ConstArray array = field.array.view();
    FieldSpec spec;
    spec.name = "field" + std::to_string(specs.size());
    spec.dtype = array.dtype;
    spec.shape = array.shape;
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Most data sets return the same values for every position, so the key is not needed.
void Dataset::read_keyed(std::size_t index, const RandomKey&, Sample& out) const {
  read(index, out);
}

const std::vector<std::string>& Dataset::class_names() const {
  static const std::vector<std::string> kNone;
  return kNone;
}

std::uint64_t Dataset::identity() const {
  Identity identity;
  identity.add(size());
  for (const FieldSpec& field : fields()) {
    identity.add(field.name);
    identity.add(static_cast<std::uint64_t>(field.kind));
    identity.add(static_cast<std::uint64_t>(field.dtype));
    identity.add(to_string(field.shape));
  }
  for (std::size_t i = 0; i < size(); ++i) identity.add(name(i));
  return identity.value();
}

std::uint64_t LabeledDataset::identity() const {
  Identity identity;
  identity.add(Dataset::identity());
  for (std::size_t i = 0; i < size(); ++i) {
    identity.add(static_cast<std::uint64_t>(label(i)));
  }
  return identity.value();
}

void Dataset::decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
                     HostArray& spare) const {
  if (!field.encoded) return;
  const ConstArray array = field.array.view();
  const std::span<const std::byte> file(array.data, array.bytes());
  switch (spec.kind) {
    case FieldKind::image:
      decode_rgb(file, options, spare);
      break;
    case FieldKind::mask:
      decode_mask(file, options, spare);
      break;
    default:
      throw Error("field '" + spec.name +
                  "' holds a file's bytes but is neither image nor mask: override decode()");
  }
  std::swap(field.array, spare);
  field.encoded = false;
}

}  // namespace slipstream
