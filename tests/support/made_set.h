#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datasets/field_values.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// A data set with the declared fields, whose samples a function creates.
class MadeSet final : public Dataset {
 public:
  using Read = std::function<void(std::size_t, Sample&)>;

  MadeSet(std::size_t samples, std::vector<FieldSpec> fields, Read read)
      : declared(std::move(fields)), samples_(samples), read_(std::move(read)) {}

  std::size_t size() const override { return samples_; }
  std::vector<FieldSpec> fields() const override { return declared; }
  void read(std::size_t index, Sample& out) const override { read_(index, out); }
  bool decodes_by_default() const override { return decodes_default; }
  std::string name(std::size_t index) const override { return noun + " " + std::to_string(index); }

  std::vector<FieldSpec> declared;
  bool decodes_default = false;
  std::string noun = "sample";

 private:
  std::size_t samples_;
  Read read_;
};

inline std::shared_ptr<MadeSet> made_set(std::size_t samples, std::vector<FieldSpec> fields,
                                         MadeSet::Read read) {
  return std::make_shared<MadeSet>(samples, std::move(fields), std::move(read));
}

/// A data set with an image for each file.
inline std::shared_ptr<MadeSet> set_of_files(std::vector<std::vector<std::byte>> files) {
  const std::size_t samples = files.size();
  auto set = made_set(samples, {image_field()},
                      [files = std::move(files)](std::size_t index, Sample& out) {
                        const auto bytes = static_cast<std::int64_t>(files[index].size());
                        out.fields[0].array.assign({files[index].data(), DType::uint8, {bytes}});
                        out.fields[0].encoded = true;
                      });
  set->decodes_default = true;
  return set;
}

/// Returns a data set that calls `before(index)` before each read of `inner`.
inline std::shared_ptr<MadeSet> set_around(std::shared_ptr<const Dataset> inner,
                                           std::function<void(std::size_t)> before) {
  return made_set(inner->size(), inner->fields(),
                  [inner, before = std::move(before)](std::size_t index, Sample& out) {
                    before(index);
                    inner->read(index, out);
                  });
}

}  // namespace slipstream
