#include "core/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <set>
#include <utility>

#include "core/files.h"
#include "core/json_fields.h"
#include "core/plain_message.h"
#include "core/round_up.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

static_assert(std::endian::native == std::endian::little, "files store little-endian numbers");

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  ///< limit of the format
constexpr std::size_t kAlignment = 8;

/// Reads all bytes of `to`, where read_at() may return fewer. Returns "" or a description of the
/// error.
std::string read_all(int descriptor, std::uint64_t at, std::span<std::byte> to) {
  const auto got = read_at(descriptor, at, to);
  if (!got) return errno_message(errno);
  return *got == to.size() ? "" : "it ends too early";
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : path_(std::move(path)), file_(path_) {
  const auto fail = [this](const std::string& why) {
    throw Error("cannot read " + path_.string() + ": " + why);
  };
  if (!file_.is_open()) fail(errno_message(errno));
  struct stat opened {};
  if (::fstat(file_.descriptor(), &opened) != 0) fail(errno_message(errno));
  if (!S_ISREG(opened.st_mode)) fail("it is not a regular file; name a .safetensors file");
  const auto bytes = static_cast<std::uint64_t>(opened.st_size);
  std::uint64_t header_bytes = 0;
  if (bytes < kLengthBytes) fail("it is too short for a .safetensors file");
  const std::span<std::byte> length = std::as_writable_bytes(std::span(&header_bytes, 1));
  if (const std::string why = read_all(file_.descriptor(), 0, length); !why.empty()) fail(why);
  if (header_bytes > kMostHeaderBytes || header_bytes > bytes - kLengthBytes)
    fail(
        "it is not a .safetensors file, or was truncated: according to its first 8 bytes, a header "
        "of " +
        std::to_string(header_bytes) + " bytes follows");
  std::string text(header_bytes, '\0');
  const std::span<std::byte> space = std::as_writable_bytes(std::span(text));
  if (const std::string why = read_all(file_.descriptor(), kLengthBytes, space); !why.empty())
    fail(why);
  values_at_ = kLengthBytes + header_bytes;
  try {
    header_ = parse_safetensors_header(text, bytes - values_at_);
  } catch (const Error& error) {
    fail(error.what());
  }
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> to) const {
  ensure(to.size() == tensor.bytes, "the buffer for a tensor has the tensor's size");
  const std::string why = read_all(file_.descriptor(), values_at_ + tensor.offset, to);
  if (!why.empty())
    throw Error("cannot read tensor '" + printable_name(tensor.name) + "' of " + path_.string() +
                ": " + why);
}

std::string lay_out_safetensors(std::vector<StoredTensor>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  // The values start at a multiple of 8. With the widest elements first, each tensor is aligned to
  // its elements, so that readers can map the file.
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const std::size_t wide = size_bytes(a.type), narrow = size_bytes(b.type);
    return wide != narrow ? wide > narrow : a.name < b.name;
  });
  std::set<std::string_view> names = {kMetadataKey};
  json::Json root = json::Json::object();
  if (!metadata.empty()) root[kMetadataKey] = metadata;
  std::uint64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    ensure(names.insert(tensor.name).second, "two tensors have the same name");
    tensor.bytes = tensor_bytes(tensor.type, tensor.shape).value();
    tensor.offset = std::exchange(end, end + tensor.bytes);
    root[tensor.name] = {{"dtype", to_string(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.offset, end}}};
  }
  std::string text = root.dump();
  text.resize(round_up(text.size(), kAlignment), ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToStore>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> stored;
  std::map<std::string_view, std::span<const std::byte>> values;
  for (const TensorToStore& tensor : tensors) {
    ensure(tensor_bytes(tensor.type, tensor.shape) == tensor.values.size(),
           "a tensor's values do not fit its shape");
    stored.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
    values[tensor.name] = tensor.values;
  }
  const std::string head = lay_out_safetensors(stored, metadata);
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(head))};
  for (const StoredTensor& tensor : stored) parts.push_back(values[tensor.name]);
  write_file_durably(path, parts);
}

}  // namespace slipstream
