#include "engine/safetensors.h"

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

std::string header_text(const std::vector<TensorToStore>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  json::Json root = json::Json::object();
  if (!metadata.empty()) root[kMetadataKey] = metadata;
  std::uint64_t end = 0;
  for (const TensorToStore& tensor : tensors) {
    const std::uint64_t begin = std::exchange(end, end + tensor.values.size());
    root[tensor.name] = {
        {"dtype", to_string(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = root.dump();
  text.resize(round_up(text.size(), kAlignment), ' ');
  return text;
}

void check(const std::vector<TensorToStore>& tensors) {
  std::set<std::string_view> names = {kMetadataKey};
  for (const TensorToStore& tensor : tensors) {
    ensure(names.insert(tensor.name).second, "two tensors have the same name");
    ensure(tensor_bytes(tensor.type, tensor.shape) == tensor.values.size(),
           "a tensor's values do not fit its shape");
  }
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

void write_safetensors(const std::filesystem::path& path, std::vector<TensorToStore> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check(tensors);
  // The values start at a multiple of 8. With the widest elements first, each tensor is aligned to
  // its elements, so that readers can map the file.
  std::sort(tensors.begin(), tensors.end(), [](const TensorToStore& a, const TensorToStore& b) {
    const std::size_t wide = size_bytes(a.type), narrow = size_bytes(b.type);
    return wide != narrow ? wide > narrow : a.name < b.name;
  });
  const std::string text = header_text(tensors, metadata);
  const std::uint64_t length = text.size();
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&length, 1)),
                                                   std::as_bytes(std::span(text))};
  for (const TensorToStore& tensor : tensors) parts.push_back(tensor.values);
  write_file_durably(path, parts);
}

}  // namespace slipstream
