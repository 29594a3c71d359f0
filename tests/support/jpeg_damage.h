#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "slipstream/core/error.h"
#include "support/jpeg_set.h"

namespace slipstream {

using JpegFile = std::vector<std::byte>;

/// Returns the offset of the second byte of the first such marker.
inline std::size_t find_marker(const JpegFile& file, unsigned marker) {
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xff} && file[i + 1] == static_cast<std::byte>(marker)) return i + 1;
  }
  throw Error("the file has no such marker");
}

inline void put_bytes(JpegFile& file, std::size_t at, std::initializer_list<unsigned> bytes) {
  for (const unsigned byte : bytes) file.at(at++) = static_cast<std::byte>(byte);
}

/// Keeps the first `size` bytes of a file that has at least that many.
inline void keep_first(JpegFile& file, std::size_t size) {
  file.erase(file.begin() + static_cast<std::ptrdiff_t>(size), file.end());
}

/// Returns the offset at part / of of the first scan's data.
inline std::size_t in_scan(const JpegFile& file, std::size_t part, std::size_t of) {
  const std::size_t scan = find_marker(file, 0xda) + 11;
  return scan + (file.size() - 2 - scan) * part / of;
}

/// Changes a side of the image in the frame header by `more` pixels.
inline void add_to_side(JpegFile& file, std::size_t offset, int more) {
  const std::size_t at = find_marker(file, 0xc0) + offset;
  const int side = std::to_integer<int>(file[at]) * 256 + std::to_integer<int>(file[at + 1]) + more;
  put_bytes(file, at, {static_cast<unsigned>(side) / 256, static_cast<unsigned>(side) % 256});
}

struct JpegDamage {
  std::string name;
  std::function<void(JpegFile&)> spoil;
  /// the damage is in coded data, while the header and all markers are valid
  bool is_in_codes = false;
};

/// Damage that the CPU's decoder detects in baseline files of some KB.
inline std::vector<JpegDamage> jpeg_damages() {
  const auto cut = [](std::size_t part) {
    return [part](JpegFile& file) { keep_first(file, in_scan(file, part, 10)); };
  };
  const auto end_at = [](JpegFile& file) {
    put_bytes(file, in_scan(file, 1, 2), {0xff, 0xd9, 0x11, 0x22});
  };
  const auto cut_with_end = [](JpegFile& file) {
    keep_first(file, in_scan(file, 7, 10));
    file.insert(file.end(), {std::byte{0x5a}, std::byte{0xff}, std::byte{0xd9}});
  };
  const auto bad_codes = [](JpegFile& file) {
    for (std::size_t at = in_scan(file, 9, 10); at + 4 < file.size(); at += 2)
      put_bytes(file, at, {0xff, 0x00});
  };
  const auto zeros = [](JpegFile& file) {
    std::fill(file.begin() + static_cast<std::ptrdiff_t>(in_scan(file, 1, 3)),
              file.begin() + static_cast<std::ptrdiff_t>(in_scan(file, 2, 3)), std::byte{0});
  };
  return {
      {"cut at 1/10", cut(1)},
      {"cut at 1/2", cut(5)},
      {"cut at 9/10", cut(9)},
      {"no end marker", [](JpegFile& file) { keep_first(file, file.size() - 2); }},
      {"cut in the header", [](JpegFile& file) { keep_first(file, find_marker(file, 0xc0) + 4); }},
      {"end marker in the middle", end_at, true},
      {"another marker in the middle",
       [](JpegFile& file) {
         put_bytes(file, in_scan(file, 1, 2), {0xff, 0xc4});
       }},
      {"restart marker out of place",
       [](JpegFile& file) {
         put_bytes(file, in_scan(file, 1, 2), {0xff, 0xd3});
       }},
      {"cut at 7/10, with an end marker", cut_with_end, true},
      {"invalid codes", bad_codes, true},
      {"zeros", zeros, true},
      {"Huffman table with an invalid number",
       [](JpegFile& file) { put_bytes(file, find_marker(file, 0xc4) + 3, {0x7f}); }, true},
      {"Huffman table too long",
       [](JpegFile& file) { put_bytes(file, find_marker(file, 0xc4) + 4, {0xff}); }, true},
      {"scan with a missing table",
       [](JpegFile& file) { put_bytes(file, find_marker(file, 0xda) + 5, {0x33}); }, true},
      {"too high", [](JpegFile& file) { add_to_side(file, 4, 64); }, true},
      {"too low", [](JpegFile& file) { add_to_side(file, 4, -16); }, true},
      {"too wide", [](JpegFile& file) { add_to_side(file, 6, 64); }, true},
      {"too narrow", [](JpegFile& file) { add_to_side(file, 6, -32); }, true},
  };
}

/// Changes that do not affect the picture.
inline std::vector<JpegDamage> jpeg_oddities() {
  const auto rest = [](JpegFile& file) {
    for (unsigned i = 0; i < 99; ++i) file.push_back(static_cast<std::byte>(i * 37));
  };
  const auto second = [](JpegFile& file) {
    const JpegFile again = file;
    file.insert(file.end(), again.begin(), again.end());
  };
  return {{"data after the end marker", rest}, {"second file after the end marker", second}};
}

}  // namespace slipstream
