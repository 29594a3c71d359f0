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

/// Reads a list of transforms and appends them to `out`. `path` is the path of the list.
void read_transforms(const Json& list, const std::string& path, std::vector<NamedOp>& out,
                     Problems& problems);

/// Reads the keys of one object as visit_parameters() requests them.
class Reader : public json::Fields {
 public:
  Reader(const Json& value, std::string path, Problems& problems)
      : Fields(value, std::move(path), "the file of transforms", problems) {}

  using Fields::find;
  /// Reads any type that json::take() supports.
  template <typename T>
  void operator()(const std::string& key, T& out, Presence need) {
    if (const Json* value = find(key, need)) json::take(*value, full_path(key), out, problems());
  }
  /// Reads a list of one to four numbers.
  void operator()(const std::string& key, std::vector<double>& out, Presence need);
  template <std::size_t N>
  void operator()(const std::string& key, std::array<double, N>& out, Presence need) {
    if (const Json* value = find_numbers(key, need, N, N))
      out = value->get<std::array<double, N>>();
  }
  void operator()(const std::string& key, Interpolation& out, Presence need);
  void operator()(const std::string& key, Padding& out, Presence need);
  void operator()(const std::string& key, PaddingMode& out, Presence need);
  void operator()(const std::string& key, const Fill& out, Presence need);
  void operator()(const std::string& key, AutoAugmentPolicy& out, Presence need);
  void operator()(const std::string& key, DType& out, Presence need);
  void operator()(const std::string& key, Size& out, Presence need);
  /// Reads the keys `key` and "max_size". With "max_size", `key` is optional.
  void operator()(const std::string& key, ResizedSize& out, Presence need);
  void operator()(const std::string& key, const Pair& out, Presence need);
  void operator()(const std::string& key, const Shear& out, Presence need);
  void operator()(const std::string& key, const KernelSize& out, Presence need);
  void operator()(const std::string& key, const Weights& out, Presence need);
  void operator()(const std::string& key, std::vector<NamedOp>& out, Presence need);

 private:
  const Json* find(const std::string& key, Presence need) {
    return need == Presence::required ? find_required(key) : Fields::find(key);
  }
  /// Returns a list of `least` to `most` numbers, or nullptr.
  const Json* find_numbers(const std::string& key, Presence need, std::size_t least,
                           std::size_t most);
  /// Returns true if `list` holds only numbers; reports all other elements as problems.
  bool are_numbers(const std::string& key, const Json& list);
  /// Reads a Pair that is given as a single number.
  void read_one(const std::string& key, const Json& value, const Pair& out);
  struct OneOrTwo {
    bool is_one;  ///< a single number was given; both values are equal
    std::int64_t first, second;
  };
  /// Returns true if `list` holds only integers; reports all other elements as problems.
  bool are_integers(const std::string& key, const Json& list);
  /// Returns one integer, given alone or in a list, or a list of two integers; no value otherwise.
  std::optional<OneOrTwo> find_sides(const std::string& key, Presence need, const char* what);
};

}  // namespace slipstream::chain
