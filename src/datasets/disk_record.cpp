#include "datasets/disk_record.h"

#include <algorithm>
#include <bit>

#include "core/fingerprint.h"

namespace slipstream {
namespace {

static_assert(std::endian::native == std::endian::little, "records hold little-endian numbers");

/// Returns the number of bytes of the values, or no value if the form is invalid or larger than
/// `limit`.
std::optional<std::uint64_t> value_bytes(const StoredForm& form, std::uint64_t limit) {
  if (form.dtype > static_cast<std::uint32_t>(DType::float32) || form.encoded > 1 ||
      form.rank > Shape::kMaxRank) {
    return std::nullopt;
  }
  const auto dims = std::span(form.dims).first(form.rank);
  if (std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < 0; })) {
    return std::nullopt;
  }
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  std::uint64_t bytes = size_bytes(static_cast<DType>(form.dtype));
  for (const std::int64_t dim : dims) {
    // Division, because the product of damaged dimensions could overflow.
    if (static_cast<std::uint64_t>(dim) > limit / bytes) return std::nullopt;
    bytes *= static_cast<std::uint64_t>(dim);
  }
  return bytes <= limit ? std::optional(bytes) : std::nullopt;
}

}  // namespace

std::uint64_t RecordSlot::expected_check(std::uint64_t seed, std::uint64_t sample) const {
  return chain64(chain64(chain64(chain64(seed, sample), offset), bytes), digest);
}

std::optional<RecordForm> RecordForm::parse(std::span<const StoredForm> head, std::uint64_t bytes) {
  if (bytes < head.size_bytes()) return std::nullopt;
  std::uint64_t left = bytes - head.size_bytes();
  RecordForm form;
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto field_bytes = value_bytes(head[i], left);
    if (!field_bytes) return std::nullopt;
    left -= *field_bytes;
    FieldForm& field = form.fields[i];
    field.dtype = static_cast<DType>(head[i].dtype);
    field.encoded = head[i].encoded == 1;
    field.shape.rank = head[i].rank;
    for (std::size_t d = 0; d < head[i].rank; ++d) field.shape.dims[d] = head[i].dims[d];
  }
  // The sizes were checked before any memory is allocated for the fields.
  if (left != 0) return std::nullopt;
  return form;
}

StoredForm stored_form(const Field& field) {
  const ConstArray value = field.array.view();
  StoredForm form;
  form.dtype = static_cast<std::uint32_t>(value.dtype);
  form.encoded = field.encoded ? 1 : 0;
  form.rank = static_cast<std::uint16_t>(value.shape.rank);
  for (std::size_t d = 0; d < value.shape.rank; ++d) form.dims[d] = value.shape[d];
  return form;
}

RecordDigest::RecordDigest(std::span<const StoredForm> head)
    : digest_(fingerprint(head.data(), head.size_bytes())) {}

void RecordDigest::add(const ConstArray& values) {
  digest_ = chain64(digest_, fingerprint(values.data, values.bytes()));
}

}  // namespace slipstream
