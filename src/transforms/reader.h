#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json_fields.h"
#include "transforms/parameters.h"

namespace slipstream::chain {

using json::Json;
using json::Problems;

/// The keys of one object, as visit_parameters() asks for them.
class Reader : public json::Fields {
 public:
  Reader(const Json& value, std::string path, Problems& problems)
      : Fields(value, std::move(path), "the file of transforms", problems) {}

  using Fields::find;
  /// What json::take() takes.
  template <typename T>
  void operator()(const std::string& key, T& out, Presence need) {
    if (const Json* value = find(key, need)) json::take(*value, full_path(key), out, problems());
  }
  /// One to four numbers.
  void operator()(const std::string& key, std::vector<double>& out, Presence need);
  template <std::size_t N>
  void operator()(const std::string& key, std::array<double, N>& out, Presence need) {
    if (const Json* value = find_numbers(key, need, N, N))
      out = value->get<std::array<double, N>>();
  }
  void operator()(const std::string& key, Interpolation& out, Presence need);
  void operator()(const std::string& key, DType& out, Presence need);
  void operator()(const std::string& key, Size& out, Presence need);
  void operator()(const std::string& key, ResizedSize& out, Presence need);
  void operator()(const std::string& key, const Pair& out, Presence need);
  void operator()(const std::string& key, const Shear& out, Presence need);
  void operator()(const std::string& key, const KernelSize& out, Presence need);

 private:
  const Json* find(const std::string& key, Presence need) {
    return need == Presence::required ? find_required(key) : Fields::find(key);
  }
  /// A list of `least` to `most` numbers, or nullptr.
  const Json* find_numbers(const std::string& key, Presence need, std::size_t least,
                           std::size_t most);
  /// What is none in `list` goes to the problems.
  bool are_numbers(const std::string& key, const Json& list);
  /// Of a number.
  void read_one(const std::string& key, const Json& value, const Pair& out);
  struct OneOrTwo {
    bool is_one;  ///< then they are equal
    std::int64_t first, second;
  };
  /// One whole number, alone or in a list, or a list of two; nothing where the value is neither.
  std::optional<OneOrTwo> find_sides(const std::string& key, Presence need, const char* what);
};

}  // namespace slipstream::chain
