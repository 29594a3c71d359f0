#include "report/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <system_error>

#include "core/files.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "records hold little-endian numbers");

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      table[i] = table[i] >> 1 ^ (table[i] % 2 == 1 ? kReversedPolynomial : 0);
  }
  return table;
}();

template <typename T>
std::string raw_bytes(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// TFRecord stores CRCs rotated and offset, because a CRC over data that contains CRCs is weak.
std::string masked_crc(std::string_view bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  return raw_bytes(std::rotr(crc32c(bytes), 15) + kMask);
}

std::string record(const std::string& event) {
  const std::string length = raw_bytes(std::uint64_t{event.size()});
  return length + masked_crc(length) + event + masked_crc(event);
}

// Fields of protocol buffers: (number << 3 | wire type), then the value.

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value % 0x80 + 0x80);
  return bytes + static_cast<char>(value);
}

std::string number_field(unsigned field, std::uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string double_field(unsigned field, double value) {
  return varint(field << 3 | 1) + raw_bytes(value);
}
std::string bytes_field(unsigned field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string float_field(unsigned field, float value) {
  return varint(field << 3 | 5) + raw_bytes(value);
}

std::string version_event(double wall_time_s) {
  return double_field(1, wall_time_s) + bytes_field(3, "brain.Event:2");
}

std::string start_event(double wall_time_s, std::uint64_t first_step) {
  constexpr std::uint64_t kStart = 1;
  return double_field(1, wall_time_s) + number_field(2, first_step) +
         bytes_field(7, number_field(1, kStart));
}

std::string scalars_event(double wall_time_s, std::uint64_t step,
                          const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [name, value] : values)
    summary += bytes_field(1, bytes_field(1, name) + float_field(2, static_cast<float>(value)));
  return double_field(1, wall_time_s) + number_field(2, step) + bytes_field(5, summary);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  for (char& c : name)
    if (c != '\0' && std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '_';
  return name.data();
}

fs::path new_file_in(const fs::path& folder, double wall_time_s) {
  const std::string stem = "events.out.tfevents." +
                           std::to_string(static_cast<std::uint64_t>(wall_time_s)) + "." +
                           host_name() + "." + std::to_string(::getpid());
  std::error_code failed;
  fs::path path = folder / stem;
  // A process can start several runs in one second.
  for (int i = 1; fs::exists(path, failed); ++i) path = folder / (stem + "." + std::to_string(i));
  return path;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const fs::path& folder, double wall_time_s, std::uint64_t first_step)
    : path_(new_file_in(folder, wall_time_s)) {
  write_own_file(path_,
                 record(version_event(wall_time_s)) + record(start_event(wall_time_s, first_step)));
}

void EventFile::add(double wall_time_s, std::uint64_t step,
                    const std::vector<std::pair<std::string, double>>& values) {
  if (!append_to_file(path_, record(scalars_event(wall_time_s, step, values))))
    throw Error("cannot write " + path_.string() + ": it has been removed; start a new event file");
}

}  // namespace slipstream
