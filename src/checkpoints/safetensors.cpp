#include "checkpoints/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "core/file_bytes.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  ///< that the format allows
constexpr std::size_t kAlignment = 8;

std::string reason(int error) { return std::generic_category().message(error); }

std::uint64_t number_of(const std::array<std::byte, kLengthBytes>& bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    number = number << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return number;
}

std::array<std::byte, kLengthBytes> bytes_of_number(std::uint64_t number) {
  std::array<std::byte, kLengthBytes> bytes{};
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(number & 0xff);
    number >>= 8;
  }
  return bytes;
}

/// What read_at does, where all must come. "" or what went wrong.
std::string read_all(int descriptor, std::uint64_t at, std::span<std::byte> to) {
  const auto got = read_at(descriptor, at, to);
  if (!got) return reason(errno);
  return *got == to.size() ? "" : "it ends too early";
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

std::string header_text(const std::vector<TensorToStore>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  json::Json root = json::Json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  std::uint64_t end = 0;
  for (const TensorToStore& tensor : tensors) {
    const std::uint64_t begin = std::exchange(end, end + tensor.values.size());
    root[tensor.name] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = root.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

void check(const std::vector<TensorToStore>& tensors) {
  std::set<std::string_view> names = {"__metadata__"};
  for (const TensorToStore& tensor : tensors) {
    ensure(names.insert(tensor.name).second, "a tensor's name comes twice");
    ensure(bytes_of(tensor.type, tensor.shape) == tensor.values.size(),
           "a tensor's values do not fit its shape");
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto fail = [this](const std::string& why) {
    throw Error("cannot read " + path_.string() + ": " + why);
  };
  Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(reason(errno));
  struct stat opened {};
  if (::fstat(file.get(), &opened) != 0) fail(reason(errno));
  if (!S_ISREG(opened.st_mode)) fail("it is not a regular file; name a .safetensors file");
  const auto bytes = static_cast<std::uint64_t>(opened.st_size);
  std::array<std::byte, kLengthBytes> length{};
  if (bytes < kLengthBytes) fail("it is too short for a .safetensors file");
  if (const std::string why = read_all(file.get(), 0, length); !why.empty()) fail(why);
  const std::uint64_t header_bytes = number_of(length);
  if (header_bytes > kMostHeaderBytes || header_bytes > bytes - kLengthBytes)
    fail("it is not a .safetensors file, or was cut off: its first 8 bytes say that a header of " +
         std::to_string(header_bytes) + " bytes follows");
  std::string text(header_bytes, '\0');
  const std::span<std::byte> space = std::as_writable_bytes(std::span(text));
  if (const std::string why = read_all(file.get(), kLengthBytes, space); !why.empty()) fail(why);
  values_at_ = kLengthBytes + header_bytes;
  try {
    header_ = parse_safetensors_header(text, bytes - values_at_);
  } catch (const Error& error) {
    fail(error.what());
  }
  descriptor_ = file.release();
}

SafetensorsFile::~SafetensorsFile() { ::close(descriptor_); }

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> to) const {
  ensure(to.size() == tensor.bytes, "the place for a tensor has its size");
  const std::string why = read_all(descriptor_, values_at_ + tensor.offset, to);
  if (!why.empty())
    throw Error("cannot read tensor '" + tensor.name + "' of " + path_.string() + ": " + why);
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorToStore> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check(tensors);
  std::sort(tensors.begin(), tensors.end(), [](const TensorToStore& a, const TensorToStore& b) {
    const std::size_t wide = size_bytes(a.type), narrow = size_bytes(b.type);
    return wide != narrow ? wide > narrow : a.name < b.name;
  });
  const std::string text = header_text(tensors, metadata);
  const auto length = bytes_of_number(text.size());
  std::vector<std::span<const std::byte>> parts = {length, std::as_bytes(std::span(text))};
  for (const TensorToStore& tensor : tensors) parts.push_back(tensor.values);
  write_file_durably(path, parts);
}

}  // namespace slipstream
