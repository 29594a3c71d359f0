#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "ops/parameters.h"

namespace slipstream::chain {

using Json = nlohmann::ordered_json;
using Problems = std::vector<std::string>;

/// A value as messages show it.
std::string shown(const Json& value);

/// Takes the keys of one object; what is wrong with them goes to `problems`, with its path.
class Reader {
 public:
  Reader(const Json& value, std::string path, Problems& problems);

  /// The value of `key`, or nullptr where it is not there.
  const Json* find(const std::string& key);
  void operator()(const std::string& key, std::int64_t& out, Need need);
  void operator()(const std::string& key, double& out, Need need);
  /// One to four numbers.
  void operator()(const std::string& key, std::vector<double>& out, Need need);
  template <std::size_t N>
  void operator()(const std::string& key, std::array<double, N>& out, Need need) {
    if (const Json* value = find_numbers(key, need, N, N))
      out = value->get<std::array<double, N>>();
  }
  void operator()(const std::string& key, std::string& out, Need need);
  void operator()(const std::string& key, bool& out, Need need);
  void operator()(const std::string& key, Interpolation& out, Need need);
  void operator()(const std::string& key, DType& out, Need need);
  void operator()(const std::string& key, Size& out, Need need);
  void operator()(const std::string& key, ResizedSize& out, Need need);
  void operator()(const std::string& key, const Pair& out, Need need);
  void operator()(const std::string& key, const Shear& out, Need need);
  void operator()(const std::string& key, const KernelSize& out, Need need);
  /// Every key that was not asked for is a problem.
  void refuse_others();
  std::string path_of(const std::string& key) const;

 private:
  const Json* find(const std::string& key, Need need);
  /// A list of `least` to `most` numbers, or nullptr.
  const Json* find_numbers(const std::string& key, Need need, std::size_t least, std::size_t most);
  /// What is none in `list` goes to the problems.
  bool are_numbers(const std::string& key, const Json& list);
  /// Of a number.
  void read_one(const std::string& key, const Json& value, const Pair& out);
  struct OneOrTwo {
    bool is_one;  ///< then they are equal
    std::int64_t first, second;
  };
  /// One whole number or a list of two; nothing where the value is neither.
  std::optional<OneOrTwo> find_sides(const std::string& key, Need need, const char* what);
  void must_be(const std::string& key, const char* what, const Json& value);

  const Json& value_;
  std::string path_;
  Problems& problems_;
  std::vector<std::string> known_;
};

}  // namespace slipstream::chain
