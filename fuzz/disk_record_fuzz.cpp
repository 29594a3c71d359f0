#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "datasets/disk_record.h"

/// Whatever stands in a record's head, the fields that are accepted fill the record, no more. The
/// input: a byte that counts further fields, then the head, then values.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  if (size == 0) return 0;
  std::vector<StoredForm> head(1 + data[0] % kMaxRecordFields);
  const std::uint64_t bytes = size - 1;
  const std::span<std::byte> to = std::as_writable_bytes(std::span(head));
  std::memcpy(to.data(), data + 1, std::min<std::size_t>(to.size(), bytes));
  const auto form = RecordForm::parse(head, bytes);
  if (!form) return 0;
  std::uint64_t used = to.size();
  for (std::size_t i = 0; i < head.size(); ++i) {
    used += form->fields[i].shape.elements() * size_bytes(form->fields[i].dtype);
  }
  if (used != bytes) std::abort();
  return 0;
}
