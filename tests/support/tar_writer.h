#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/files.h"

namespace slipstream {

/// Writes archives, valid and damaged ones.
class TarWriter {
 public:
  using Block = std::array<char, 512>;

  static void octal(Block& block, std::size_t at, std::size_t digits, std::uint64_t value) {
    for (std::size_t i = digits; i-- > 0; value /= 8) {
      block[at + i] = static_cast<char>('0' + value % 8);
    }
    block[at + digits] = '\0';
  }
  static void seal(Block& block) {
    std::memset(block.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    octal(block, 148, 6, sum);
  }
  static Block header(std::string_view name, std::size_t bytes, char type = '0') {
    Block block{};
    std::memcpy(block.data(), name.data(), name.size());
    octal(block, 100, 7, 0644);
    octal(block, 124, 11, bytes);
    block[156] = type;
    std::memcpy(block.data() + 257,
                "ustar\0"
                "00",
                8);
    seal(block);
    return block;
  }

  void raw(const Block& block) { bytes_.append(block.data(), block.size()); }
  void data(std::string_view bytes) {
    bytes_ += bytes;
    bytes_.append((512 - bytes.size() % 512) % 512, '\0');
  }
  void add(std::string_view name, std::string_view bytes, char type = '0') {
    raw(header(name, bytes.size(), type));
    data(bytes);
  }
  void pax(std::string_view key, std::string_view value, char type = 'x') {
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t length = rest + 1;
    while (rest + std::to_string(length).size() != length) ++length;
    add("extended",
        std::to_string(length) + " " + std::string(key) + "=" + std::string(value) + "\n", type);
  }
  void end() { bytes_.append(1024, '\0'); }

  const std::string& bytes() const { return bytes_; }
  void write(const std::filesystem::path& path) {
    end();
    write_file_atomically(path, bytes_);
  }

 private:
  std::string bytes_;
};

}  // namespace slipstream
