#include "tools/sample_maker.h"

#include <algorithm>
#include <string>

#include "loader/bad_samples.h"
#include "slipstream/core/error.h"

namespace slipstream {

SampleMaker::SampleMaker(const Dataset& dataset, const std::vector<FieldSpec>& specs,
                         const ConvertOptions& options, Decode decode)
    : dataset_(dataset), specs_(specs), options_(options), decode_(decode), spare_(specs.size()) {
  sample_.fields.resize(specs.size());
}

const Sample& SampleMaker::make(std::size_t index) {
  bool is_transform = false;
  try {
    for (Field& field : sample_.fields) field.encoded = false;
    dataset_.read(index, sample_);
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      Field& field = sample_.fields[i];
      if (!field.encoded) continue;
      const bool is_copied = decode_ == Decode::what_changes && !is_changed(specs_[i]);
      // A copy is decoded, so that damage is found while the file itself stays unchanged.
      if (is_copied) tried_.array.assign(field.array.view());
      tried_.encoded = true;
      dataset_.decode(specs_[i], {.background = options_.background}, is_copied ? tried_ : field,
                      spare_[i]);
      field.encoded = is_copied;
    }
    is_transform = true;
    for (const NamedOp& each : options_.transforms)
      each.op.apply({.seed = 0, .epoch = 0, .sample = index}, specs_, sample_, spare_, scratch_);
  } catch (const Error& error) {
    const std::string message = at_sample(dataset_, index, error.what());
    if (current_exception_is_the_samples(is_transform)) throw BadSample(message);
    throw Error(message);
  }
  return sample_;
}

bool SampleMaker::is_changed(const FieldSpec& spec) const {
  return std::any_of(options_.transforms.begin(), options_.transforms.end(),
                     [&](const NamedOp& each) { return each.op.touches(spec.kind); });
}

std::string at_sample(const Dataset& dataset, std::size_t index, const std::string& what) {
  return "sample " + std::to_string(index) + " (" + printable_name(dataset.name(index)) +
         "): " + what;
}

}  // namespace slipstream
